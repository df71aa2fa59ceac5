// Compiled by batch_types_test.py: every function must fail with the words of its static assertion, and with no other
// error.
#include "binade/amp/step/trainer.h"
#include "binade/io/data/stream.h"

using namespace binade;

struct Plain {
  Tensor x{};
};
struct OtherOrigin {
  Tensor x{};
  int origin = 0;
};
struct OtherWithout {
  Tensor x{};
  io::BatchOrigin origin{};
  OtherWithout without(int) const;
};
struct NoOrigin {
  Tensor x{};
  NoOrigin without(std::span<const std::int64_t>) const;
};
struct OtherState {
  int state() const;
};
struct NoState {
  static NoState from_state(const StateDict&);
};
struct OtherTo {
  void to(Device) const;
};
struct OtherLoader {
  Plain next();
};

struct NoSize {
  Tensor get(std::int64_t) const;
};
struct NoConstGet {
  std::int64_t size() const;
  Tensor get(std::int64_t);
};
struct Floats {
  std::int64_t size() const;
  float get(std::int64_t) const;
};
struct NoRestart {
  std::optional<float> next();
};
struct WithNumber {
  Tensor x{};
  float y = 0;
};

template <class Batch>
void step_with(amp::Trainer& trainer, const Batch& batch) {
  trainer.step(batch, [](const Batch&) { return Variable(); });
}

void mistakes(amp::Trainer& trainer, OtherLoader& loader) {
  trainer.step(Plain{}, [](const OtherOrigin&) { return Variable(); });
  trainer.step(Plain{}, [](const Plain&) { return std::string(); });
  step_with(trainer, OtherOrigin{});
  step_with(trainer, OtherWithout{});
  step_with(trainer, NoOrigin{});
  step_with(trainer, OtherState{});
  step_with(trainer, NoState{});
  step_with(trainer, OtherTo{});
  trainer.attach(loader);
  io::make_loader(NoSize{}, {});
  io::make_loader(NoConstGet{}, {});
  io::make_loader(Floats{}, {}, [](std::vector<std::string>) { return Tensor(); });
  io::make_stream_loader(NoRestart{}, {});
  io::collate(std::vector<WithNumber>());
  io::collate(std::vector<void*>());
}
