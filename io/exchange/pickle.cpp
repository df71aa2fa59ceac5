#include "binade/io/exchange/pickle.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "binade/core/error.h"

namespace binade::io {

namespace {

using Kind = Pickle::Value::Kind;

// The opcodes of pickletools that are read here.
enum Op : unsigned char {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMarkOp = '(',
  kPop = '0',
  kPopMark = '1',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinString = 'T',
  kShortBinString = 'U',
  kEmptyTuple = ')',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTuple = 't',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kBinPersId = 'Q',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j'
};

constexpr std::string_view kStorageSuffix = "Storage";
// A few bytes of the pickle suffice to copy the name of a global or storage again, so long names would let a small file
// fill the memory. PyTorch's are shorter: "torch.storage.UntypedStorage", "123".
constexpr std::size_t kLongestName = 64;

/// True for a global that unpickling may use; "torch.FloatStorage" and other storages are among them.
bool is_known_global(const std::string& name) {
  constexpr std::string_view kKnown[] = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                         "torch._utils._rebuild_parameter", "torch.Size"};
  if (std::ranges::find(kKnown, name) != std::end(kKnown)) return true;
  return (name.starts_with("torch.") || name.starts_with("torch.storage.")) && name.ends_with(kStorageSuffix);
}

}  // namespace

/// A pickle is a program for a stack machine. This class interprets its instructions; it calls no Python function.
class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& name, Pickle& result)
      : bytes_(bytes), name_(name), result_(result) {}

  void run() {
    while (step()) {
    }
    if (stack_.size() != 1) refuse("ends with other than one value");
    result_.root_ = stack_.back();
  }

 private:
  using Value = Pickle::Value;

  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(fmt::format("{}: the pickle {} (at its byte {})", name_, what, at_));
  }

  // ---- bytes

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("is truncated");
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  std::uint64_t natural(std::size_t width) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(width).data(), width);
    return value;
  }
  std::string text(std::uint64_t count) {
    const auto part = take(count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) refuse("is truncated");
    at_ += end + 1;
    return std::string(rest.substr(0, end));
  }

  // ---- values

  std::size_t make(Value value) {
    result_.values_.push_back(std::move(value));
    return result_.values_.size() - 1;
  }
  void push(Value value) { stack_.push_back(make(std::move(value))); }
  void push_integer(std::int64_t value) { push({.kind = Kind::kInteger, .integer = value}); }
  Value& value(std::size_t index) { return result_.values_[index]; }
  std::size_t pop() {
    if (stack_.empty() || value(stack_.back()).kind == Kind::kMark) refuse("takes a value that is not there");
    const std::size_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  /// Removes and returns the values above the last mark.
  std::vector<std::size_t> pop_to_mark() {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                   [this](std::size_t i) { return value(i).kind == Kind::kMark; });
    if (mark == stack_.rend()) refuse("has no mark where one is required");
    std::vector<std::size_t> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }
  void push_tuple(std::size_t count) {
    std::vector<std::size_t> items(count);
    while (count-- > 0) items[count] = pop();
    push({.kind = Kind::kTuple, .items = std::move(items)});
  }
  Value& container(Kind kind, const char* what) {
    if (stack_.empty() || value(stack_.back()).kind != kind)
      refuse(fmt::format("adds to a {} that is not there", what));
    return value(stack_.back());
  }
  void set_items(const std::vector<std::size_t>& items) {
    Value& dict = container(Kind::kDict, "dictionary");
    if (items.size() % 2 != 0) refuse("has a key without a value");
    for (std::size_t i = 0; i < items.size(); i += 2) dict.pairs.emplace_back(items[i], items[i + 1]);
  }
  void append(const std::vector<std::size_t>& items) {
    Value& list = container(Kind::kList, "list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }

  void push_long(std::uint64_t width) {
    if (width > sizeof(std::int64_t)) refuse(fmt::format("has a whole number of {} bytes; wanted at most 8", width));
    const std::uint64_t low = natural(width);
    const std::uint64_t unused = 8 * (8 - width);
    push_integer(width == 0 ? 0 : static_cast<std::int64_t>(low << unused) >> unused);
  }
  void push_float() {  // big-endian
    std::uint64_t bits = 0;
    for (const std::byte b : take(8)) bits = (bits << 8) | std::to_integer<std::uint64_t>(b);
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    push({.kind = Kind::kNumber, .number = number});
  }

  void push_global(const std::string& global) {
    if (global.size() > kLongestName || !is_known_global(global))
      refuse(
          fmt::format("uses {}, which is not part of a state dict, and nothing of a file is executed here; save the "
                      "state dict alone: torch.save(model.state_dict(), path)",
                      global.substr(0, 200)));
    push({.kind = Kind::kGlobal, .text = global});
  }
  void push_stack_global() {
    const std::size_t name = pop(), module = pop();
    if (value(name).kind != Kind::kText || value(module).kind != Kind::kText)
      refuse("names a global by other than texts");
    push_global(value(module).text + "." + value(name).text);
  }

  void get(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse("uses a value that it did not store");
    stack_.push_back(found->second);
  }
  void put(std::uint64_t key) {
    const std::size_t top = pop();
    memo_[key] = top;
    stack_.push_back(top);
  }

  // ---- tensors

  std::uint64_t extent(std::size_t index, const char* what) {
    const Value& number = value(index);
    if (number.kind != Kind::kInteger || number.integer < 0)
      refuse(fmt::format("has a {} that is no natural number", what));
    return static_cast<std::uint64_t>(number.integer);
  }
  std::vector<std::uint64_t> extents(std::size_t index, const char* what) {
    if (value(index).kind != Kind::kTuple) refuse(fmt::format("has a {} that is no tuple", what));
    if (value(index).items.size() > 8) refuse(fmt::format("has a {} of more than 8 numbers", what));
    std::vector<std::uint64_t> numbers;
    for (const std::size_t item : value(index).items) numbers.push_back(extent(item, what));
    return numbers;
  }

  /// ('storage', class, key, location, number of elements)
  void push_storage() {
    const Value& id = value(pop());
    const bool known = id.kind == Kind::kTuple && id.items.size() >= 5 && value(id.items[0]).text == "storage" &&
                       value(id.items[1]).kind == Kind::kGlobal && value(id.items[2]).kind == Kind::kText;
    if (!known) refuse("refers to something outside that is no storage of a tensor");
    const std::string& type = value(id.items[1]).text;
    if (!type.ends_with(kStorageSuffix)) refuse(fmt::format("has a storage of the class {}", type));
    if (value(id.items[2]).text.size() > kLongestName)
      refuse(fmt::format("has a storage whose name has more than {} bytes", kLongestName));
    Pickle::TensorView storage{.type = type.substr(type.rfind('.') + 1),
                               .key = value(id.items[2]).text,
                               .storage_elements = extent(id.items[4], "size of a storage")};
    push({.kind = Kind::kStorage, .tensor = std::make_shared<const Pickle::TensorView>(std::move(storage))});
  }

  /// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks, …)
  void push_tensor(const Value& arguments) {
    if (arguments.items.size() < 4 || value(arguments.items[0]).kind != Kind::kStorage)
      refuse("makes a tensor of other than a storage, an offset, a size and strides");
    Pickle::TensorView tensor = *value(arguments.items[0]).tensor;
    tensor.offset = extent(arguments.items[1], "offset");
    tensor.shape = extents(arguments.items[2], "size");
    tensor.strides = extents(arguments.items[3], "stride");
    push({.kind = Kind::kTensor, .tensor = std::make_shared<const Pickle::TensorView>(std::move(tensor))});
  }

  void reduce() {
    const std::size_t arguments = pop(), function = pop();
    if (value(function).kind != Kind::kGlobal || value(arguments).kind != Kind::kTuple)
      refuse("calls something that is no function");
    const std::string& name = value(function).text;
    const std::vector<std::size_t>& given = value(arguments).items;
    if (name == "torch._utils._rebuild_tensor_v2") return push_tensor(value(arguments));
    if (name == "collections.OrderedDict" && given.empty()) return push({.kind = Kind::kDict});
    if (name == "torch._utils._rebuild_parameter" && !given.empty() && value(given[0]).kind == Kind::kTensor)
      return stack_.push_back(given[0]);
    if (name == "torch.Size" && given.size() == 1 && value(given[0]).kind == Kind::kTuple)
      return stack_.push_back(given[0]);
    refuse(fmt::format("calls {} with arguments that are not known here", name));
  }

  /// Accepts and ignores attributes of a dictionary: PyTorch's state_dict() has one ("_metadata").
  void build() {
    pop();
    container(Kind::kDict, "dictionary of attributes");
  }

  /// Executes one instruction. Returns false after the last one.
  bool step() {
    const auto op = static_cast<unsigned char>(take(1)[0]);
    switch (op) {
      case kProto: check_protocol(natural(1)); return true;
      case kFrame: take(8); return true;
      case kStop: return false;
      case kMarkOp: push({.kind = Kind::kMark}); return true;
      case kPop: pop(); return true;
      case kPopMark: pop_to_mark(); return true;
      case kNone: push({}); return true;
      case kTrue: push({.kind = Kind::kBool, .integer = 1}); return true;
      case kFalse: push({.kind = Kind::kBool}); return true;
      case kBinInt: push_integer(static_cast<std::int32_t>(natural(4))); return true;
      case kBinInt1: push_integer(static_cast<std::int64_t>(natural(1))); return true;
      case kBinInt2: push_integer(static_cast<std::int64_t>(natural(2))); return true;
      case kLong1: push_long(natural(1)); return true;
      case kBinFloat: push_float(); return true;
      case kBinUnicode: push({.kind = Kind::kText, .text = text(natural(4))}); return true;
      case kShortBinUnicode: push({.kind = Kind::kText, .text = text(natural(1))}); return true;
      case kBinUnicode8: push({.kind = Kind::kText, .text = text(natural(8))}); return true;
      case kBinString: push({.kind = Kind::kText, .text = text(natural(4))}); return true;
      case kShortBinString: push({.kind = Kind::kText, .text = text(natural(1))}); return true;
      case kBinBytes: push({.kind = Kind::kBytes, .text = text(natural(4))}); return true;
      case kShortBinBytes: push({.kind = Kind::kBytes, .text = text(natural(1))}); return true;
      case kEmptyTuple: push_tuple(0); return true;
      case kTuple1: push_tuple(1); return true;
      case kTuple2: push_tuple(2); return true;
      case kTuple3: push_tuple(3); return true;
      case kTuple: push({.kind = Kind::kTuple, .items = pop_to_mark()}); return true;
      case kEmptyList: push({.kind = Kind::kList}); return true;
      case kAppend: append({pop()}); return true;
      case kAppends: append(pop_to_mark()); return true;
      case kEmptyDict: push({.kind = Kind::kDict}); return true;
      case kSetItem: set_item(); return true;
      case kSetItems: set_items(pop_to_mark()); return true;
      case kGlobal: push_line_global(); return true;
      case kStackGlobal: push_stack_global(); return true;
      case kReduce: reduce(); return true;
      case kBuild: build(); return true;
      case kBinPersId: push_storage(); return true;
      case kBinPut: put(natural(1)); return true;
      case kLongBinPut: put(natural(4)); return true;
      case kMemoize: put(memo_.size()); return true;
      case kBinGet: get(natural(1)); return true;
      case kLongBinGet: get(natural(4)); return true;
      default: refuse(fmt::format("has the instruction {:#04x}, which no state dict needs", op));
    }
  }
  void check_protocol(std::uint64_t version) const {
    if (version < 2 || version > 5) refuse(fmt::format("has protocol {}; wanted 2 to 5", version));
  }
  void set_item() {
    const std::size_t item = pop(), key = pop();
    set_items({key, item});
  }
  void push_line_global() {
    const std::string module = line(), name = line();
    push_global(module + "." + name);
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  Pickle& result_;
  std::size_t at_ = 0;
  std::vector<std::size_t> stack_;
  std::map<std::uint64_t, std::size_t> memo_;
};

Pickle::Pickle(std::span<const std::byte> pickle, const std::string& name) { Unpickler(pickle, name, *this).run(); }

}  // namespace binade::io
