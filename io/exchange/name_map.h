#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/exchange/layout.h"
#include "binade/io/exchange/safetensors.h"

namespace binade::io {

/// A rule between names of another program ("theirs") and of a Binade model ("ours"). Names may have captures: {1} to
/// {9} match a part of a name without dots, {*} any text, even an empty one; both sides have the same captures. One
/// side has a single name. If the other side has several, the tensor is split into them along `axis` of ours, or joined
/// from them along `axis` of theirs.
struct NameRule {
  std::vector<std::string> theirs{};  ///< empty: only Binade has the tensor; it is not written
  std::vector<std::string> ours{};    ///< empty: only the other program has the tensor; it is not read
  Layout layout{};                    ///< of the single tensor; empty: see NameMap::set_layout()
  bool as_is = false;                 ///< true: the layout is the same, whatever kind of module has the tensor
  int axis = 0;                       ///< axis along which several tensors are joined
  std::vector<std::int64_t> sizes{};  ///< ratios of the parts; empty: equal parts
  bool optional = false;              ///< the tensor may be missing
  bool tied = false;                  ///< `theirs` is a second name of a tensor: written too, compared when read
  bool literal = false;               ///< braces in names are not captures
};

/// The result of a conversion: the renamed tensors, and lists of the problems.
struct MappedTensors {
  TensorMap tensors{};                    ///< the results
  std::vector<std::string> missing{};     ///< names that the result lacks
  std::vector<std::string> unexpected{};  ///< names of the input that no rule converts
  std::vector<std::string> different{};   ///< names with descriptions: wrong shapes, two tensors of one name
  /// Throws DataError "WHAT: missing: …; unexpected: …; different: …; ADVICE" unless all lists are empty. If not
  /// `strict`, only `different` is checked.
  void check(std::string_view what, std::string_view advice, bool strict = true) const;
};

/// A list of rules that converts names and layouts of tensors in both directions. The first rule that matches a name
/// converts it. A text of rules has one per line:
///
///     # names of the file        names of the model              layout
///     prefix model.
///     h.{1}.ln_1.{2}          -> blocks.{1}.norm1.{2}
///     h.{1}.attn.weight       -> blocks.{1}.query.weight + blocks.{1}.key.weight + blocks.{1}.value.weight : transpose
///     h.{1}.mask              -> -
///     head.bias               -> head.bias                      : optional
///
/// The words after " : " are steps of a layout (io/exchange/layout.h), as-is, axis=N, sizes=8:1:1, optional and tied.
/// `prefix P` removes P from names of the file that begin with it; exported names do not get it.
class NameMap {
 public:
  /// Parses a text of rules. Throws ArgumentError that begins with `title` and the number of the line.
  static NameMap parse(std::string_view text, const std::string& title);
  /// Reads a file of rules. Throws DataError or ArgumentError that names it.
  static NameMap read(const std::string& path);

  /// Adds a rule. Throws ArgumentError if its sides do not fit together.
  NameMap& add(NameRule rule);
  /// Adds a rule as a line of text.
  NameMap& add(std::string_view line);
  /// Removes a text from names of the other program that begin with it.
  NameMap& remove_prefix(const std::string& prefix);
  /// Adds all rules, prefixes and layouts of another map; its rules apply to names that no rule of this one matches.
  NameMap& append(const NameMap& other);
  /// Sets the layout of the tensor `ours` for rules between single names that state no layout.
  void set_layout(const std::string& ours, Layout layout) { layouts_[ours] = std::move(layout); }
  /// For use without a model: in rules that state no layout, a tensor of 3 or more axes has the layout `filter` if the
  /// last component of its name begins with "weight".
  void guess_filters() { guesses_filters_ = true; }

  /// Converts tensors of the other program. If given, `wanted` has the tensors of the model: results get their dtypes
  /// (floating ones are rounded once), other shapes are errors, rules for tensors that the model lacks are ignored, and
  /// all its names are required unless a rule is optional. Without it, a rule is required if it has no captures, or
  /// only {1}, for each value that {1} has in names with the same text before it.
  MappedTensors from_theirs(const TensorMap& theirs, const TensorMap* wanted = nullptr) const;
  /// Converts tensors of Binade. Rules are required as in from_theirs() without a model.
  MappedTensors to_theirs(const TensorMap& ours) const;
  /// Returns the name or names ("a + b") of the tensor `ours` in the other program; `ours` if no rule has it.
  std::string theirs_of(const std::string& ours) const;

 private:
  friend class Conversion;
  std::vector<NameRule> rules_;
  std::vector<std::string> prefixes_;
  std::map<std::string, Layout> layouts_;
  bool guesses_filters_ = false;
};

/// Returns rules that need no model: names stay the same, filters are guessed from names and ranks
/// (NameMap::guess_filters()), and the tensors of torch.nn.MultiheadAttention (in_proj_weight, out_proj) become those
/// of nn::MultiHeadAttention (query, key, value, out). `tensors`: the tensors to convert, of either side.
NameMap names_without_model(const TensorMap& tensors);
/// Adds the rules of an attention with the paths `theirs` and `ours`, which are empty or end with a dot. `separate`:
/// the other program has q_proj_weight, k_proj_weight and v_proj_weight, as for keys or values of other widths.
void add_attention(NameMap& map, const std::string& theirs, const std::string& ours, bool separate, bool tied = false);

}  // namespace binade::io
