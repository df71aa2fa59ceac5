#include "binade/io/exchange/name_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "binade/core/error.h"
#include "binade/io/exchange/name_pattern.h"
#include "binade/io/files/read_file.h"

namespace binade::io {

namespace {

using Names = std::vector<std::string>;

constexpr std::uint64_t kLargestRuleFile = 16 << 20;

/// Returns the words of a line without its comment.
Names words_of(std::string_view line) {
  Names words;
  std::string word;
  const auto flush = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (const char c : line.substr(0, line.find('#'))) {
    if (c == ' ' || c == '\t' || c == '\r')
      flush();
    else
      word += c;
  }
  flush();
  return words;
}

std::vector<std::int64_t> ratios_of(const std::string& word) {
  std::vector<std::int64_t> ratios;
  for (std::size_t at = word.find('='); at < word.size();) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data() + at + 1, word.data() + word.size(), number);
    at = static_cast<std::size_t>(end - word.data());
    const bool good = error == std::errc() && number > 0 && number <= 1'000'000 &&
                      (at == word.size() || word[at] == ':');
    check<ArgumentError>(good, "{}: wanted numbers from 1 to 1000000 with colons between them", word);
    ratios.push_back(number);
  }
  return ratios;
}

void apply_word(NameRule& rule, const std::string& word) {
  if (is_layout_step(word)) {
    rule.layout.push_back(layout_step(word));
  } else if (word == "as-is") {
    rule.as_is = true;
  } else if (word == "optional") {
    rule.optional = true;
  } else if (word == "tied") {
    rule.tied = true;
  } else if (word.starts_with("axis=") && word.size() == 6 && word[5] >= '0' && word[5] < '0' + Shape::kMaxRank) {
    rule.axis = word[5] - '0';
  } else if (word.starts_with("sizes=")) {
    rule.sizes = ratios_of(word);
  } else {
    throw ArgumentError(
        fmt::format("{}: wanted transpose, filter, permute=…, flattened=…, blocks=…, as-is, axis=0 to 7, "
                    "sizes=…, optional or tied",
                    word));
  }
}

/// Parses "a + b", the words [begin, end). "-" gives an empty list.
Names side_of(const Names& words, std::size_t begin, std::size_t end) {
  Names names;
  for (std::size_t i = begin; i < end; i += 2) {
    check<ArgumentError>(words[i] != "+" && (i + 1 == end || (i + 2 < end && words[i + 1] == "+")),
                         "wanted \"NAME -> NAME\", with + between several names");
    names.push_back(words[i]);
  }
  check<ArgumentError>(!names.empty(), "wanted names on both sides of ->; \"-\" is none");
  if (names == Names{"-"}) names.clear();
  return names;
}

NameRule rule_of(const Names& words) {
  const auto index = [&](const char* word) {
    return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin());
  };
  const std::size_t arrow = index("->"), colon = index(":");
  check<ArgumentError>(arrow < colon && arrow < words.size(), "wanted \"NAME -> NAME\", got no \"->\"");
  NameRule rule{.theirs = side_of(words, 0, arrow), .ours = side_of(words, arrow + 1, std::min(colon, words.size()))};
  for (std::size_t i = colon + 1; i < words.size(); ++i) apply_word(rule, words[i]);
  return rule;
}

/// Returns the captures of the names on one side; throws ArgumentError if the names have different captures.
std::set<int> captures_of(const Names& names, bool literal) {
  const std::set<int> first = NamePattern(names.front(), literal).captures();
  for (const std::string& name : names)
    check<ArgumentError>(NamePattern(name, literal).captures() == first,
                         "wanted the same captures in all names, got {}", fmt::join(names, " + "));
  return first;
}

void check_rule(const NameRule& rule) {
  const auto text = [&] { return fmt::format("{} -> {}", fmt::join(rule.theirs, " + "), fmt::join(rule.ours, " + ")); };
  check<ArgumentError>(!rule.theirs.empty() || !rule.ours.empty(), "wanted a name on one side of ->, got none");
  const std::size_t parts = std::max(rule.theirs.size(), rule.ours.size());
  const bool one_sided = rule.theirs.empty() || rule.ours.empty();
  check<ArgumentError>(parts == 1 || std::min(rule.theirs.size(), rule.ours.size()) == 1,
                       "{}: wanted one name on one of the two sides", text());
  check<ArgumentError>(rule.sizes.empty() || rule.sizes.size() == parts, "{}: wanted {} sizes, got {}", text(), parts,
                       rule.sizes.size());
  check<ArgumentError>(!rule.as_is || rule.layout.empty(), "{}: as-is and another layout exclude each other", text());
  for (const Names& names : {rule.theirs, rule.ours})
    if (!names.empty()) captures_of(names, rule.literal);
  check<ArgumentError>(one_sided || captures_of(rule.theirs, rule.literal) == captures_of(rule.ours, rule.literal),
                       "{}: wanted the same captures on both sides", text());
}

std::vector<NamePattern> patterns_of(const Names& names, bool literal) {
  std::vector<NamePattern> patterns;
  for (const std::string& name : names) patterns.emplace_back(name, literal);
  return patterns;
}

Names filled(const std::vector<NamePattern>& patterns, const NamePattern::Captures& captures) {
  Names names;
  for (const NamePattern& pattern : patterns) names.push_back(pattern.fill(captures));
  return names;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  return a.bytes() == 0 || std::memcmp(a.on_host().raw(), b.on_host().raw(), a.bytes()) == 0;
}

std::string describe(const Tensor& t) { return fmt::format("{} {}", name_of(t.dtype()), t.shape()); }

}  // namespace

void MappedTensors::check(std::string_view what, std::string_view advice, bool strict) const {
  std::string text;
  const auto append = [&text](const char* title, const Names& list) {
    if (!list.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", title, fmt::join(list, ", "));
  };
  if (strict) append("missing", missing);
  if (strict) append("unexpected", unexpected);
  append("different", different);
  binade::check<DataError>(text.empty(), "{}: {}; {}", what, text, advice);
}

NameMap NameMap::parse(std::string_view text, const std::string& title) {
  NameMap map;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    try {
      map.add(text.substr(0, end));
    } catch (const ArgumentError& error) {
      throw ArgumentError(fmt::format("{}: line {}: {}", title, line, error.what()));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return map;
}

NameMap NameMap::read(const std::string& path) { return parse(read_file(path, kLargestRuleFile), path); }

NameMap& NameMap::add(std::string_view line) {
  const Names words = words_of(line);
  if (words.empty()) return *this;
  if (words.front() != "prefix") return add(rule_of(words));
  binade::check<ArgumentError>(words.size() == 2, "prefix: wanted one text, got {}", words.size() - 1);
  return remove_prefix(words[1]);
}

NameMap& NameMap::add(NameRule rule) {
  check_rule(rule);
  if (rule.sizes.empty()) rule.sizes.assign(std::max(rule.theirs.size(), rule.ours.size()), 1);
  rules_.push_back(std::move(rule));
  return *this;
}

NameMap& NameMap::remove_prefix(const std::string& prefix) {
  prefixes_.push_back(prefix);
  return *this;
}

NameMap& NameMap::append(const NameMap& other) {
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
  prefixes_.insert(prefixes_.end(), other.prefixes_.begin(), other.prefixes_.end());
  for (const auto& entry : other.layouts_) layouts_.insert(entry);
  guesses_filters_ = guesses_filters_ || other.guesses_filters_;
  return *this;
}

/// One conversion of all tensors, in one direction.
class Conversion {
 public:
  Conversion(const NameMap& map, bool from_theirs, const TensorMap* wanted)
      : map_(map), from_theirs_(from_theirs), wanted_(wanted) {
    for (const NameRule& rule : map.rules_) {
      const Names &in = from_theirs ? rule.theirs : rule.ours, &out = from_theirs ? rule.ours : rule.theirs;
      sides_.push_back({patterns_of(in, rule.literal), patterns_of(out, rule.literal)});
      for (const NamePattern& pattern : sides_.back().in) {
        if (pattern.exact())
          exact_[pattern.text()].insert(sides_.size() - 1);
        else
          patterns_.insert(sides_.size() - 1);
      }
    }
  }

  MappedTensors run(const TensorMap& input) {
    for (const auto& [name, tensor] : input) {
      const std::string plain = from_theirs_ ? without_prefix(name) : name;
      if (!input_.emplace(plain, tensor).second)
        result_.different.push_back(fmt::format("{} (it occurs with and without a prefix)", plain));
    }
    for (const auto& [name, tensor] : input_)
      if (!used_.contains(name)) convert(name);
    wanted_ != nullptr ? compare_with_wanted() : require_rules();
    return std::move(result_);
  }

 private:
  struct Sides {
    std::vector<NamePattern> in, out;
  };

  std::string without_prefix(std::string name) const {
    for (const std::string& prefix : map_.prefixes_)
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    return name;
  }

  /// Converts a tensor by the first rule that applies. To the other program, all matching tied rules convert it too.
  void convert(const std::string& name) {
    std::set<std::size_t> candidates = patterns_;
    if (const auto found = exact_.find(name); found != exact_.end())
      candidates.insert(found->second.begin(), found->second.end());
    bool done = false;
    for (const std::size_t i : candidates) {
      const NameRule& rule = map_.rules_[i];
      if (done && (from_theirs_ || !rule.tied)) continue;
      for (const NamePattern& pattern : sides_[i].in) {
        NamePattern::Captures captures;
        if (!pattern.match(name, captures)) continue;
        if (pattern.captures() == std::set<int>{1}) seen_[std::string(pattern.begin())].insert(captures[1]);
        const Names to = filled(sides_[i].out, captures);
        if (wanted_ != nullptr && !std::ranges::all_of(to, [&](const auto& n) { return wanted_->contains(n); })) break;
        apply(rule, name, filled(sides_[i].in, captures), to);
        done = done || from_theirs_ || !rule.tied;
        break;
      }
    }
    if (!done) result_.unexpected.push_back(name);
  }

  Layout layout_of(const NameRule& rule, const Names& from, const Names& to, const Tensor& tensor) const {
    if (!rule.layout.empty() || rule.as_is || rule.theirs.size() != 1 || rule.ours.size() != 1) return rule.layout;
    const std::string& ours = from_theirs_ ? to.front() : from.front();
    if (const auto found = map_.layouts_.find(ours); found != map_.layouts_.end()) return found->second;
    const bool weight = std::string_view(ours).substr(ours.rfind('.') + 1).starts_with("weight");
    if (map_.guesses_filters_ && weight && tensor.rank() >= 3) return {layout_step("filter")};
    return {};
  }

  /// Applies a rule with the inputs `from` and the results `to`. One side has a single name, or `to` is empty.
  void apply(const NameRule& rule, const std::string& name, const Names& from, const Names& to) {
    std::vector<Tensor> parts;
    bool complete = true;
    for (const std::string& part : from) {
      used_.insert(part);
      const auto found = input_.find(part);
      if (found != input_.end()) {
        parts.push_back(found->second);
      } else {
        complete = false;
        result_.missing.push_back(fmt::format("{} (which belongs to {})", part, name));
      }
    }
    if (!complete || to.empty()) {
      for (const std::string& result : to) failed_.insert(result);
      return;
    }
    try {
      const Layout layout = layout_of(rule, from, to, parts.front());
      const Tensor whole = joined(parts, rule.axis, rule.sizes);
      const std::vector<Tensor> results = split(from_theirs_ ? to_ours(whole, layout) : to_theirs(whole, layout),
                                                rule.axis, to.size() > 1 ? rule.sizes : std::vector<std::int64_t>{1});
      for (std::size_t i = 0; i < to.size(); ++i) put(to[i], results[i], name, rule.tied);
    } catch (const ArgumentError& error) {
      result_.different.push_back(fmt::format("{} ({})", name, error.what()));
      for (const std::string& result : to) failed_.insert(result);
    }
  }

  static Tensor joined(const std::vector<Tensor>& parts, int axis, const std::vector<std::int64_t>& ratios) {
    Tensor whole = io::joined(parts, axis);
    for (std::size_t i = 0; parts.size() > 1 && i < parts.size(); ++i)
      binade::check<ShapeError>(parts[i].dim(axis) * ratios[0] == parts[0].dim(axis) * ratios[i],
                                "the parts have the extents {} and {} along axis {}; wanted the ratio {}:{}",
                                parts[0].dim(axis), parts[i].dim(axis), axis, ratios[0], ratios[i]);
    return whole;
  }

  void put(const std::string& name, const Tensor& tensor, const std::string& source, bool tied) {
    const auto [at, is_first] = result_.tensors.emplace(name, tensor);
    const auto [first, ignored] = sources_.emplace(name, Source{source, tied});
    if (is_first) return;
    if ((tied || first->second.tied) && same_bytes(at->second, tensor)) return;
    result_.different.push_back(fmt::format("{} ({} is the same tensor, and they differ)", source, first->second.name));
  }

  /// Compares the results with the tensors of the model, and converts floating dtypes.
  void compare_with_wanted() {
    for (const auto& [name, tensor] : *wanted_) {
      const auto found = result_.tensors.find(name);
      if (found == result_.tensors.end()) {
        if (!failed_.contains(name) && !is_optional(name)) {
          const std::string theirs = map_.theirs_of(name);
          result_.missing.push_back(theirs == name ? name : fmt::format("{} (for {})", theirs, name));
        }
        continue;
      }
      Tensor& got = found->second;
      const bool fits = got.dtype() == tensor.dtype() || (is_floating(got.dtype()) && is_floating(tensor.dtype()));
      if (!fits || !(got.shape() == tensor.shape()))
        result_.different.push_back(fmt::format("{} (wanted {}, got {})", name, describe(tensor), describe(got)));
      else if (got.dtype() != tensor.dtype())
        convert_dtype(name, got, tensor.dtype());
    }
  }

  void convert_dtype(const std::string& name, Tensor& tensor, DType dtype) {
    const Tensor rounded = tensor.to(dtype);
    bool overflows = false;
    for (std::int64_t i = 0; tensor.dtype() == DType::f64 && i < tensor.numel() && !overflows; ++i)
      overflows = std::isfinite(tensor.at(i)) && !std::isfinite(rounded.at(i));
    if (overflows)
      result_.different.push_back(fmt::format("{} (it has numbers beyond the range of {})", name, name_of(dtype)));
    tensor = rounded;
  }

  bool is_optional(const std::string& ours) const {
    for (const NameRule& rule : map_.rules_)
      for (const std::string& name : rule.ours) {
        NamePattern::Captures captures;
        if (NamePattern(name, rule.literal).match(ours, captures)) return rule.optional || rule.theirs.empty();
      }
    return false;
  }

  /// Without a model: adds the inputs that rules require but the file lacks to `missing` (see from_theirs()).
  void require_rules() {
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const NameRule& rule = map_.rules_[i];
      if (rule.optional || rule.tied || sides_[i].in.empty() || sides_[i].out.empty()) continue;
      const NamePattern& first = sides_[i].in.front();
      const bool numbered = first.captures() == std::set<int>{1};
      if (!first.exact() && !numbered) continue;
      const auto seen = seen_.find(std::string(first.begin()));
      const std::set<std::string> values = numbered ? (seen == seen_.end() ? std::set<std::string>{} : seen->second)
                                                    : std::set<std::string>{""};
      for (const std::string& value : values) {
        NamePattern::Captures captures;
        captures[1] = value;
        for (const std::string& name : filled(sides_[i].in, captures))
          if (!input_.contains(name) && !used_.contains(name)) result_.missing.push_back(name);
      }
    }
  }

  struct Source {
    std::string name;
    bool tied;
  };

  const NameMap& map_;
  const bool from_theirs_;
  const TensorMap* const wanted_;
  std::vector<Sides> sides_;                            // of each rule
  std::map<std::string, std::set<std::size_t>> exact_;  // rules by an input name without captures
  std::set<std::size_t> patterns_;                      // the other rules
  TensorMap input_;
  MappedTensors result_;
  std::set<std::string> used_, failed_;                // names of inputs, names of results
  std::map<std::string, Source> sources_;              // of results
  std::map<std::string, std::set<std::string>> seen_;  // values of {1}, by the text before it
};

MappedTensors NameMap::from_theirs(const TensorMap& theirs, const TensorMap* wanted) const {
  return Conversion(*this, true, wanted).run(theirs);
}

MappedTensors NameMap::to_theirs(const TensorMap& ours) const { return Conversion(*this, false, nullptr).run(ours); }

std::string NameMap::theirs_of(const std::string& ours) const {
  for (const NameRule& rule : rules_)
    for (const std::string& name : rule.ours) {
      NamePattern::Captures captures;
      if (rule.theirs.empty() || !NamePattern(name, rule.literal).match(ours, captures)) continue;
      return fmt::format("{}", fmt::join(filled(patterns_of(rule.theirs, rule.literal), captures), " + "));
    }
  return ours;
}

void add_attention(NameMap& map, const std::string& theirs, const std::string& ours, bool separate, bool tied) {
  constexpr const char* kParts[] = {"query", "key", "value"};
  for (const std::string part : {"weight", "bias"}) {
    Names thirds;
    for (const char* third : kParts) thirds.push_back(fmt::format("{}{}.{}", ours, third, part));
    const bool optional = part == "bias";
    if (separate && part == "weight") {
      for (std::size_t i = 0; i < 3; ++i)
        map.add({.theirs = {fmt::format("{}{}_proj_weight", theirs, kParts[i][0])},
                 .ours = {thirds[i]},
                 .tied = tied,
                 .literal = true});
    } else {
      map.add({.theirs = {theirs + "in_proj_" + part},
               .ours = thirds,
               .optional = optional,
               .tied = tied,
               .literal = true});
    }
    map.add({.theirs = {theirs + "out_proj." + part},
             .ours = {ours + "out." + part},
             .optional = optional,
             .tied = tied,
             .literal = true});
  }
}

NameMap names_without_model(const TensorMap& tensors) {
  NameMap map;
  map.guess_filters();
  const auto has = [&](const std::string& name) { return tensors.contains(name); };
  for (const auto& [name, tensor] : tensors) {
    const auto prefix_before = [&](std::string_view end) {
      return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string("\n");
    };
    const auto is_path = [](const std::string& p) { return p.empty() || p.ends_with('.'); };
    if (const std::string p = prefix_before("in_proj_weight"); is_path(p) && has(p + "out_proj.weight"))
      add_attention(map, p, p, false);
    if (const std::string p = prefix_before("q_proj_weight");
        is_path(p) && has(p + "k_proj_weight") && has(p + "out_proj.weight"))
      add_attention(map, p, p, true);
    const std::string p = prefix_before("query.weight");
    if (!is_path(p) || !has(p + "key.weight") || !has(p + "value.weight") || !has(p + "out.weight")) continue;
    const Shape &q = tensor.shape(), &k = tensors.at(p + "key.weight").shape(),
                &v = tensors.at(p + "value.weight").shape();
    const bool same_width = q.rank() == 2 && k.rank() == 2 && v.rank() == 2 && q[0] == q[1] && k[0] == q[0] &&
                            v[0] == q[0];
    if (same_width) add_attention(map, p, p, !(q == k && q == v));
  }
  return map.add("{*} -> {*}");
}

}  // namespace binade::io
