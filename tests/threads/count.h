#pragma once

namespace binade::test {

/// Number of fresh models that the tests of inference use: the flag --models of this program.
int fresh_models();

}  // namespace binade::test
