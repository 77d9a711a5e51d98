// How all HTML reports look: one style sheet, written into each page.
#pragma once

#include <cstddef>
#include <string_view>

namespace plumbline::html {

/// Colours for parts of a whole: classes "c0" to "c7"; "other" and "gap" beside them.
inline constexpr std::size_t kColours = 8;

/// Contents of <style>: light and dark, from 360 px to paper. Without '<' and '&', so that it needs no escape.
extern const std::string_view kStyle;

}  // namespace plumbline::html
