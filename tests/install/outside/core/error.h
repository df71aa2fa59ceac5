// A header of the program with the same path as a header of Binade. The compiler must not confuse them.
#pragma once

inline constexpr double kWorstLoss = 1e-3;
