// A header of the program with the same path as one of Binade's, which must not be confused.
#pragma once

inline constexpr double kWorstLoss = 1e-3;
