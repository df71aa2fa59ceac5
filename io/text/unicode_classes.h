#pragma once

namespace binade::io {

/// True for code points of the general category L (letter) or N (number), or with the property White_Space, in
/// Unicode 16.
bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_space(char32_t c);

}  // namespace binade::io
