// forge_checkpoint FROM TO [ENTRY KIND VALUE]...: writes a copy of a checkpoint with changed entries and valid
// checksums, as an attacker would. KIND is text, integer, integers (separated by commas), number, none (removes the
// entry and ignores VALUE) or show (prints an entry of text and writes no file).
#include <cstdio>
#include <fstream>
#include <sstream>

#include "binade/amp/state_hash.h"
#include "binade/io/checkpoint/file.h"

namespace {

binade::StateDict::Integers integers_of(const std::string& text) {
  binade::StateDict::Integers list;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) list.push_back(std::stoll(word));
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace binade;
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() < 2 || arguments.size() % 3 != 2) throw ArgumentError("wanted FROM TO [ENTRY KIND VALUE]...");
    std::map<std::string, StateDict::Value> entries = io::load_checkpoint(arguments[0]).state.values();
    for (std::size_t i = 2; i < arguments.size(); i += 3) {
      const std::string &entry = arguments[i], &kind = arguments[i + 1], &text = arguments[i + 2];
      if (kind == "text")
        entries[entry] = text;
      else if (kind == "integer")
        entries[entry] = std::int64_t{std::stoll(text)};
      else if (kind == "integers")
        entries[entry] = integers_of(text);
      else if (kind == "number")
        entries[entry] = std::stod(text);
      else if (kind == "none")
        entries.erase(entry);
      else if (kind == "show")
        return std::puts(std::get<std::string>(entries.at(entry)).c_str()) < 0 ? 1 : 0;
      else
        throw ArgumentError("no such kind: " + kind);
    }
    StateDict state;
    for (auto& [name, value] : entries) state.put(name, value);
    const io::CheckpointImage image = io::encode_checkpoint(state, amp::state_hash(state));
    std::ofstream file(arguments[1], std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(image.bytes().data()), static_cast<std::streamsize>(image.bytes().size()));
    return file.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forge_checkpoint: %s\n", error.what());
    return 1;
  }
}
