#pragma once

namespace binade::io {

/// General categories L (letter) and N (number), and the property White_Space, of Unicode 16.
bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_space(char32_t c);

}  // namespace binade::io
