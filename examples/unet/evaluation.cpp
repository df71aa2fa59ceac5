#include "examples/unet/evaluation.h"

#include "binade/io/terminal/signals.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {

MaskScore evaluate(UNet& model, const io::ImageSet& images, const std::string& loss, const EachPrediction& each) {
  const NoGradGuard no_grad;
  const bool was_training = model.training();
  model.eval();
  auto batches = io::evaluation_batches(images, 1);
  Overlap foreground(1), background(0);
  MaskScore score;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    if (io::StopSignals::stop_requested()) throw amp::EvaluationStopped();
    const io::ImageBatch batch = batches.next();
    const Tensor logits = predict_logits(model, batch.images);
    const Tensor ids = classes_of(logits);
    score.loss += segmentation_loss(loss, logits.to(batch.masks.device()), batch.masks).item() /
                  static_cast<double>(images.size());
    foreground.add(ids, batch.masks);
    background.add(ids, batch.masks);
    if (each) each(images.samples[static_cast<std::size_t>(i)], ids.reshape({ids.dim(1), ids.dim(2)}));
  }
  model.train(was_training);
  score.dice = foreground.dice();
  score.iou = foreground.iou();
  score.background_dice = background.dice();
  return score;
}

}  // namespace binade::examples
