// A program outside Binade's tree: it sees the installed headers, links the library and computes with it.
#include <binade.h>

#include <cstdio>

#include "core/tensor.h"

int main() {
  const binade::Shape shape({2, 3});
  std::printf("%s: %s\n", binade::build_id().c_str(), shape.to_string().c_str());
  return shape.numel() == 6 ? 0 : 1;
}
