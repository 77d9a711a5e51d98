// `validate sides`: on which side of the split each row of a file lies. The converters of tools/ ask it.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace plumbline {

/// Reads each file (CSV with `op,shape` or `model,phase` columns, a recording of cases or steps; "-" is `in`) and
/// gives a line a row: `place,side,rule`, side "train" or "heldout", rule "" or how it is held out. Operators need not
/// be known. Throws BadInput for a file that has neither kind of columns.
std::string sides_text(const std::vector<std::string>& files, std::istream& in);

}  // namespace plumbline
