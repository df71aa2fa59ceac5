#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {
namespace {

io::Loader<Batch> loader(io::LoaderOptions options) {
  return {std::move(options), [](const io::BatchOrigin& origin) {
            const auto rows = static_cast<std::int64_t>(origin.samples.size());
            return Batch{normal({rows, 4}), labels({rows}, 3), {}};
          }};
}

struct Wide : nn::Module {
  nn::Linear first{{.in = 4, .out = 16}}, head{{.in = 16, .out = 3}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("head", head);
  }
  Variable forward(const Variable& x) override { return head(relu(first(x))); }
};

template <class Model = Net>
StateDict state_after_a_step(amp::TrainerOptions options = {}) {
  Training<Model> t(std::move(options));
  t.step();
  return t.trainer.state();
}

}  // namespace

Subject data() {
  return {
      "Data and loaders",
      {
          {"a batch size of 0", {"loader", "batch", "0"}, [] { loader({.batch = 0, .samples = 10}); }},
          {"a loader without the number of samples", {"loader", "at least one sample"}, [] { loader({.batch = 4}); }},
          {"the function of a loader throws",
           {"image 3", "no such file"},
           [] {
             io::Loader<Batch> broken({.batch = 2, .samples = 4, .prefetch = 0}, [](const io::BatchOrigin&) -> Batch {
               throw DataError("image 3: no such file");
             });
             broken.next();
           }},
          {"a run continues with other data",
           {"content", "data"},
           [] {
             const StateDict state = loader({.batch = 2, .samples = 4, .content = "a"}).state();
             loader({.batch = 2, .samples = 4, .content = "b"}).load_state(state);
           }},
          {"a run continues with another number of samples",
           {"samples", "4", "5"},
           [] {
             const StateDict state = loader({.batch = 2, .samples = 4}).state();
             loader({.batch = 2, .samples = 5}).load_state(state);
           }},
          {"a run continues with another seed of the data",
           {"seed", "1", "2"},
           [] {
             const StateDict state = loader({.batch = 2, .seed = 1, .samples = 4}).state();
             loader({.batch = 2, .seed = 2, .samples = 4}).load_state(state);
           }},
          {"a text file that is not there",
           {"FOLDER/none.txt", "none.txt"},
           [] { io::read_text(temporary_folder() + "/none.txt"); }},
          {"a text file that is not UTF-8",
           {"UTF-8", "byte"},
           [] {
             const std::string path = temporary_folder() + "/latin.txt";
             write_file(path, "gr\xfc\xdf");
             io::check_utf8(io::read_text(path));
           }},
          {"an empty text", {"char", "empty"}, [] { io::make_char_tokenizer(""); }},
          {"a prompt with a letter that the text does not have",
           {"'z'", "tokenizer"},
           [] { io::make_char_tokenizer("abc")->encode("abz", io::TextOrigin::kPrompt); }},
          {"the name of a tokenizer with a typo", {"bite", "byte"}, [] { io::make_tokenizer("bite", "abc"); }},
          {"a text shorter than the context",
           {"65", "tokens"},
           [] {
             io::training_batches(io::TokenSequence({1, 2, 3}, 5), {.context = 64});
           }},
          {"a token beyond the vocabulary in a token file",
           {"tokens: wanted 0 to 4", "got 7 at index 1"},
           [] {
             io::TokenSequence({1, 7}, 5);
           }},
          {"a folder without images", {"FOLDER", "image"}, [] { io::read_image_folder(temporary_folder()); }},
          {"a PNG file that is none",
           {"broken.png", "PNG"},
           [] {
             const std::string folder = temporary_folder();
             std::filesystem::create_directories(folder + "/images");
             std::filesystem::create_directories(folder + "/masks");
             write_file(folder + "/images/broken.png", "not a png");
             write_file(folder + "/masks/broken.png", "not a png");
             io::read_image_folder(folder);
           }},
          {"MNIST files that are not there",
           {"train-images-idx3-ubyte", "FOLDER"},
           [] { io::read_labeled_images(temporary_folder(), "train"); }},
          {"a truncated MNIST file",
           {"images", "bytes"},
           [] {
             io::decode_idx(std::string("\0\0\x08\x01\0\0\0\x09"
                                        "ab",
                                        10),
                            "images");
           }},
          {"a held-out share of 1.5",
           {"1.5", "fraction"},
           [] {
             io::split_text(io::TokenSequence({1, 2, 3}, 5), 1.5);
           }},
          {"a row is left out that the batch does not have",
           {"batch", "(8, 4)", "got 9"},
           [] {
             const std::int64_t rows[] = {9};
             batch().without(rows);
           }},
      },
  };
}

Subject checkpoints() {
  return {
      "Checkpoints and weights",
      {
          {"a checkpoint of a wider model",
           {"first.weight", "(16, 4)", "(8, 4)", "build the model with the settings"},
           [] {
             const Runtime runtime({.threads = 1});
             Wide wide;
             Net net;
             nn::load_state_dict(net, nn::state_dict(wide));
           }},
          {"weights with a missing entry",
           {"missing: head.bias", "load_state_dict"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             StateDict some;
             const StateDict all = nn::state_dict(net);
             for (const auto& [name, value] : all.values())
               if (name != "head.bias") some.put(name, value);
             nn::load_state_dict(net, some);
           }},
          {"weights under a prefix of another framework",
           {"unexpected: module.first.bias", "missing: first.bias"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             StateDict with_prefix;
             const StateDict all = nn::state_dict(net);
             for (const auto& [name, value] : all.values()) with_prefix.put("module." + name, value);
             nn::load_state_dict(net, with_prefix);
           }},
          {"a run continues with another optimizer",
           {"optimizer: the checkpoint was made with 'adam'", "'sgd'", "use the same optimizer"},
           [] {
             const StateDict state = state_after_a_step();
             Runtime runtime({.seed = 1, .threads = 1});
             Net net;
             optim::Sgd optimizer(net, {.lr = 0.1});
             amp::Trainer(runtime, net, optimizer).load_state(state);
           }},
          {"a run continues with another seed",
           {"trainer: the checkpoint was made with seed 1, this run has 2", "use the same seed"},
           [] {
             const StateDict state = state_after_a_step();
             Runtime runtime({.seed = 2, .threads = 1});
             Net net;
             optim::Adam optimizer(net);
             amp::Trainer(runtime, net, optimizer).load_state(state);
           }},
          {"a run continues with another model",
           {"first.weight", "(8, 4)"},
           [] {
             const StateDict state = state_after_a_step<Wide>();
             Training<> t;
             t.trainer.load_state(state);
           }},
          {"a checkpoint file that is not there",
           {"FOLDER/none.h5", "none.h5"},
           [] { io::load_checkpoint(temporary_folder() + "/none.h5"); }},
          {"a file that is no checkpoint",
           {"weights.h5", "not a Binade checkpoint"},
           [] {
             const std::string path = temporary_folder() + "/weights.h5";
             write_file(path, std::string(4096, 'x'));
             io::load_checkpoint(path);
           }},
          {"an empty checkpoint file",
           {"empty.h5", "0 bytes"},
           [] {
             const std::string path = temporary_folder() + "/empty.h5";
             write_file(path, "");
             io::load_checkpoint(path);
           }},
          {"a PyTorch file is read as safetensors",
           {"model.pt", "torch.save()", "load_pytorch()"},
           [] {
             const std::string path = temporary_folder() + "/model.pt";
             write_file(path, std::string("PK\x03\x04") + std::string(200, 'z'));
             io::read_safetensors(path);
           }},
          {"a truncated safetensors file",
           {"cut.safetensors", "header"},
           [] {
             const std::string path = temporary_folder() + "/cut.safetensors";
             write_file(path, std::string("\x40\0\0\0\0\0\0\0{", 9));
             io::read_safetensors(path);
           }},
          {"an entry that the state does not have", {"'lr'", "state"}, [] { StateDict().number("lr"); }},
          {"an entry of another type",
           {"'lr'", "number"},
           [] {
             StateDict state;
             state.put("lr", std::string("0.1"));
             state.number("lr");
           }},
          {"an entry is put twice",
           {"'lr'", "is there already", "unique"},
           [] {
             StateDict state;
             state.put("lr", 0.1);
             state.put("lr", 0.2);
           }},
          {"a state without the trainer's sections",
           {"missing", "policy"},
           [] {
             Training<> t;
             t.trainer.load_state(nn::state_dict(t.model));
           }},
          {"an fp16 checkpoint with weights beyond f16 in a run that stores f16",
           {"head.weight", "beyond the range of f16", "f32"},
           [] {
             const StateDict state = [] {
               Training<> big;
               big.step();
               big.model.head.weight.mutable_value().fill(1e6);
               return big.trainer.state();
             }();
             Training<> t({.precision = amp::Policy::pure_fp16()});
             t.trainer.load_state(state);
           }},
      },
  };
}

Subject runs() {
  static const auto run_of = [](Training<>& t, amp::RunOptions options) {
    amp::TrainingRun(t.trainer, options).begin();
  };
  return {
      "Run folders",
      {
          {"a run without a folder",
           {"run", "folder"},
           [] {
             Training<> t;
             run_of(t, {.steps = 10});
           }},
          {"a run without a number of steps",
           {"run", "steps"},
           [] {
             Training<> t;
             run_of(t, {.folder = temporary_folder() + "/run"});
           }},
          {"a new run in the folder of another one",
           {"FOLDER", "resume"},
           [] {
             const std::string folder = temporary_folder() + "/run";
             {
               Training<> t;
               run_of(t, {.folder = folder, .steps = 10});
             }
             Training<> t;
             run_of(t, {.folder = folder, .steps = 10});
           }},
          {"resume without a checkpoint",
           {"FOLDER/run", "nothing to resume", "resume_if_possible()"},
           [] {
             Training<> t;
             amp::TrainingRun run(t.trainer, {.folder = temporary_folder() + "/run", .steps = 10});
             run.resume();
           }},
          {"a folder that is a file",
           {"FOLDER/run", "folder"},
           [] {
             const std::string path = temporary_folder() + "/run";
             write_file(path, "x");
             Training<> t;
             run_of(t, {.folder = path, .steps = 10});
           }},
          {"two processes train in one folder",
           {"FOLDER", "another"},
           [] {
             const std::string folder = temporary_folder() + "/run";
             Training<> t;
             amp::TrainingRun first(t.trainer, {.folder = folder, .steps = 10}),
                 second(t.trainer, {.folder = folder, .steps = 10});
             first.begin();
             second.resume_if_possible();
           }},
          {"the score is no number of the evaluation",
           {"'accuracy'", "val_loss"},
           [] {
             Training<> t;
             io::Loader<Batch> batches({.batch = 8, .samples = 8, .prefetch = 0},
                                       [](const io::BatchOrigin&) { return batch(); });
             amp::TrainingRun run(t.trainer, {.folder = temporary_folder() + "/run",
                                              .steps = 1,
                                              .evaluate =
                                                  [] {
                                                    return amp::Evaluation{.numbers = {{"val_loss", 1}}};
                                                  },
                                              .score = "accuracy"});
             for (const auto& b : run.batches(batches)) run.step(b, loss_of(t.model));
           }},
      },
  };
}

}  // namespace binade::mistakes
