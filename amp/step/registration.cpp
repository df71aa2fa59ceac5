#include "binade/amp/step/registration.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "binade/amp/incident/source_place.h"
#include "binade/amp/step/transaction.h"
#include "binade/autograd/observer.h"
#include "binade/core/error.h"
#include "binade/optim/registration.h"

namespace binade::amp {
namespace {

/// Finds the call of the first op that reads a variable.
class FindReader final : public TapeObserver {
 public:
  explicit FindReader(const Variable::State* leaf) : leaf_(leaf) {}
  void before_forward(const OpCall&, std::span<const Variable> inputs, Tensors&) override {
    const auto reads = [this](const Variable& x) { return x.state().get() == leaf_; };
    if (!stack_ && std::ranges::any_of(inputs, reads)) stack_ = capture_call_stack();
  }
  const std::optional<CallStack>& stack() const { return stack_; }

 private:
  const Variable::State* leaf_;
  std::optional<CallStack> stack_;
};

/// Returns " at main.cpp:12", the place where the program calls the op that reads the leaf; empty if it is unknown.
std::string place_of_reader(const Variable::State* leaf, const std::function<void()>& again) {
  FindReader reader(leaf);
  try {
    const NoGradGuard no_grad;
    const ObserverScope watched(reader);
    again();
  } catch (...) {  // for example because the closure calls grad(); the caller reports its own error
  }
  if (!reader.stack()) return "";
  const std::optional<SourcePlace> place = user_place(*reader.stack());
  return place ? fmt::format(" (called in {})", place->text()) : "";
}

/// Lists the direct submodules of a module.
class Children final : public nn::Visitor {
 public:
  using nn::Visitor::operator();
  explicit Children(nn::Module& module) { module.visit(*this); }
  void operator()(const std::string&, nn::Parameter&) override {}
  void operator()(const std::string&, nn::Buffer&) override {}
  void operator()(const std::string&, nn::Module& module) override { modules_.push_back(&module); }
  const std::vector<nn::Module*>& modules() const { return modules_; }

 private:
  std::vector<nn::Module*> modules_;
};

std::string in_module(const std::string& path) { return path.empty() ? "" : fmt::format(" in {}", path); }

}  // namespace

std::vector<std::shared_ptr<Variable::State>> frozen_parameters(const Transaction& transaction) {
  std::vector<std::shared_ptr<Variable::State>> frozen;
  if (!transaction.has_named_models()) return frozen;
  std::set<const void*> held;
  for (const optim::FlatParameters::Slice* slice : transaction.parameters()) held.insert(slice->variable.state().get());
  const Children models(transaction.model());
  for (nn::Module* model : models.modules()) {
    const auto parameters = nn::named_parameters(*model);
    const auto is_held = [&](const auto& named) { return held.contains(named.second->state().get()); };
    if (std::ranges::any_of(parameters, is_held)) continue;
    for (const auto& [name, parameter] : parameters) frozen.push_back(parameter->state());
  }
  return frozen;
}

LeafSet untrained_by(const Transaction& transaction, std::span<const std::size_t> optimizers) {
  LeafSet untrained;
  for (const auto& parameter : frozen_parameters(transaction)) untrained.insert(parameter.get());
  for (std::size_t i = 0; i < transaction.optimizers().size(); ++i)
    if (std::ranges::find(optimizers, i) == optimizers.end())
      for (const optim::FlatParameters::Slice& slice : transaction.optimizers()[i]->parameters().slices())
        untrained.insert(slice.variable.state().get());
  return untrained;
}

void check_optimizers(nn::Module& model, const std::vector<optim::Optimizer*>& optimizers) {
  std::set<const void*> named;
  for (const auto& [path, parameter] : nn::named_parameters(model)) named.insert(parameter->state().get());
  for (const optim::Optimizer* optimizer : optimizers) {
    const std::vector<optim::FlatParameters::Slice>& slices = optimizer->parameters().slices();
    const auto is_named = [&](const optim::FlatParameters::Slice& slice) {
      return named.contains(slice.variable.state().get());
    };
    const auto other = std::ranges::find_if_not(slices, is_named);
    if (other == slices.end()) continue;
    check<ArgumentError>(std::ranges::any_of(slices, is_named),
                         "trainer: the optimizer {} holds no parameter of the model, but {} of another one; make it of "
                         "the model that the trainer gets",
                         optimizer->kind(), other->name);
    throw ArgumentError(fmt::format(
        "trainer: the optimizer {} holds the parameter {}, which no visit() of the model names, so that no checkpoint "
        "would hold it; name it in visit(), or list its model too",
        optimizer->kind(), other->name));
  }
}

std::unique_ptr<Registration::Watch> Registration::watch() const {
  if (done_) return nullptr;
  take_unheld_gradients();  // discards those of earlier backwards of this thread
  return std::make_unique<Watch>();
}

void Registration::check_phase(const Watch& watch, const std::vector<std::size_t>& optimizers,
                               const std::vector<optim::GradientScan>& scans,
                               const std::function<void()>& again) const {
  check_parameters(again);
  check_use(watch);
  for (std::size_t i = 0; i < scans.size() && first_step_ == 0; ++i) {
    const optim::Optimizer& optimizer = *transaction_.optimizers()[optimizers[i]];
    const std::string name = transaction_.names_of(std::span(optimizers).subspan(i, 1));
    check<ArgumentError>(
        scans[i].gradients > 0,
        "trainer: the loss depends on none of the {} parameters of the optimizer {}{}, such as {}, so that it would "
        "change nothing; make the optimizer of the model that computes the loss, and look for detach() or a "
        "NoGradGuard",
        optimizer.parameters().size(), optimizer.kind(), name.empty() ? "" : fmt::format(" ({})", name),
        optimizer.parameters().slices().front().name);
  }
}

void Registration::check_parameters(const std::function<void()>& again) const {
  const std::vector<UnheldGradients> backwards = take_unheld_gradients();
  if (backwards.empty()) return;
  std::set<const void*> frozen;
  for (const auto& parameter : frozen_parameters(transaction_)) frozen.insert(parameter.get());
  std::map<const void*, std::string> paths;
  for (const auto& [path, parameter] : nn::named_parameters(transaction_.model()))
    paths.emplace(parameter->state().get(), path);
  for (const UnheldGradients& one : backwards)
    for (const UnheldLeaf& parameter : one.parameters) {
      const std::shared_ptr<Variable::State> leaf = parameter.leaf.lock();
      if (leaf == nullptr || frozen.contains(leaf.get()) || !leaf->requires_grad) continue;
      const auto path = paths.find(leaf.get());
      const bool named = path != paths.end();
      throw ArgumentError(fmt::format(
          "trainer: backward computed a gradient for {}{}, and {}",
          optim::describe(parameter, named ? path->second : ""), place_of_reader(leaf.get(), again),
          named ? "no optimizer holds it, so that it would never change; make the optimizer after all layers and of "
                  "the whole model, or freeze the parameter with requires_grad(false)"
                : "no visit() of the model names it, so that no optimizer would change it and no checkpoint hold it; "
                  "name its module in visit() and make the optimizer afterwards, or freeze it with "
                  "requires_grad(false)"));
    }
}

void Registration::check_use(const Watch& watch) const {
  if (watch.use_.writes().empty() && watch.use_.modes().empty()) return;
  std::set<const void*> named = {&transaction_.model()};
  for (const auto& [path, buffer] : nn::named_buffers(transaction_.model())) named.insert(buffer);
  for (const auto& [path, module] : nn::named_modules(transaction_.model())) named.insert(module);
  for (const nn::ModuleUse::Write& write : watch.use_.writes())
    check<ArgumentError>(named.contains(write.buffer),
                         "trainer: the step wrote a buffer{} that no visit() of the model names, so that its change "
                         "can neither be committed nor undone, and no checkpoint holds it; name the buffer or its "
                         "module in visit(), or call eval() on the module",
                         in_module(write.path));
  for (const nn::ModuleUse::Mode& mode : watch.use_.modes())
    check<ArgumentError>(named.contains(mode.module),
                         "trainer: the step called a module {}{} in training mode that no visit() of the model names, "
                         "so that eval() and Trainer::evaluate() would not reach it; name it in visit(), or call "
                         "eval() on it",
                         mode.kind, in_module(mode.path));
}

void Registration::passed(const Watch& watch, std::int64_t step) {
  if (done_ || step == first_step_) return;
  if (first_step_ == 0) {
    first_step_ = step;
    loose_ = watch.loose_.leaves();
    return;
  }
  done_ = true;
  if (const nn::ModuleUse::Mode& mode = watch.use_.evaluating();
      mode.module != nullptr && !transaction_.model().training())
    warnings_.push_back(
        {.kind = WarningKind::kUnusedSetting,
         .step = step,
         .module = mode.path,
         .op = mode.kind,
         .direction = "forward",
         .what = "is trained in evaluation mode, as the whole model is: dropout leaves nothing out, and "
                 "batch norms keep their statistics",
         .advice = "call train() on the model before the loop; for a part that is to stay in "
                   "evaluation mode, call eval() on that part"});
  for (const UnheldLeaf& leaf : std::exchange(loose_, {})) {
    const std::shared_ptr<Variable::State> state = leaf.leaf.lock();
    const auto same = [&](const UnheldLeaf& other) { return state && other.leaf.lock() == state; };
    if (std::ranges::none_of(watch.loose_.leaves(), same)) continue;
    warnings_.push_back(
        {.kind = WarningKind::kUntrainedParameters,
         .step = step,
         .module = leaf.module,
         .op = leaf.op,
         .direction = "backward",
         .dtype = std::string(binade::name_of(state->value.dtype())),
         .what = fmt::format(
             "reads a variable{} {} that has a gradient in every step and no optimizer: it never changes",
             state->name.empty() ? "" : " " + state->name, state->value.shape()),
         .advice = "to train it, make it an nn::Parameter that visit() names, before the optimizer; if only its "
                   "gradient is wanted, make it anew in every step"});
  }
}

}  // namespace binade::amp
