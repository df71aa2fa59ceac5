// A header of the program's own, with the path of one of Binade's.
#pragma once

inline constexpr double kWorstLoss = 1e-3;
