// The little script of pages with many rows.
#pragma once

#include <string_view>

namespace plumbline::html {

/// Tables of class "sorts": a click on a heading (or Enter) sorts by it, numbers with their units by size; a field above
/// keeps the rows that hold all of its words. Without script the tables are as they are. No character that XML escapes.
extern const std::string_view kTableScript;

}  // namespace plumbline::html
