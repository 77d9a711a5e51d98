#include "model/cli/help.hpp"

#include "model/report/columns.hpp"

namespace plumbline::cli {

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  constexpr std::size_t kWidth = 110;
  const std::size_t column = get_column_width();
  std::string line = "  " + make_option_name(option, is_positional) + make_option_opts(option);
  if (line.size() + 1 >= column) line += '\n' + std::string(column, ' ');
  else line.resize(column, ' ');
  return line + wrapped(make_option_desc(option), kWidth, column) + "\n";
}

}  // namespace plumbline::cli
