// Help pages of predict-model: at most 110 columns, whatever an option says of itself.
#pragma once

#include <CLI/CLI.hpp>

namespace plumbline::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace plumbline::cli
