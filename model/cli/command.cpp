#include "model/cli/command.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "arch/error.hpp"
#include "model/report/columns.hpp"

namespace plumbline::cli {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    constexpr std::size_t kWidth = 110;
    const std::size_t column = get_column_width();
    std::string line = "  " + make_option_name(option, is_positional) + make_option_opts(option);
    if (line.size() + 1 >= column) line += '\n' + std::string(column, ' ');
    else line.resize(column, ' ');
    return line + wrapped(make_option_desc(option), kWidth, column) + "\n";
  }
};

}  // namespace

const Option& Option::required() const {
  option_->required();
  return *this;
}

const Option& Option::value_optional() const {
  option_->expected(0, 1);
  return *this;
}

const Option& Option::hidden() const {
  option_->group("");
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& help) const {
  return Command(*app_->add_subcommand(name, help), around_);
}

Option Command::text(const std::string& flag, const std::string& shape, const std::string& help,
                     std::string& target) const {
  return value(flag, shape, help, [&target, flag, shape](const std::string& text) {
    // an empty text stands for "not given" further down, where a script's unset variable would pass unseen
    if (text.empty()) throw BadInput(flag + ": expected " + (shape.empty() ? "a name" : shape) + ", found nothing");
    target = text;
  });
}

Option Command::value(const std::string& flag, const std::string& shape, const std::string& help,
                      const std::function<void(const std::string&)>& action) const {
  return Option(app_->add_option_function<std::string>(flag, action, help)->type_name(shape));
}

Option Command::texts(const std::string& flag, const std::string& shape, const std::string& help,
                      std::vector<std::string>& target) const {
  return Option(app_->add_option(flag, target, help)->type_name(shape));
}

Option Command::repeated(const std::string& flag, const std::string& shape, const std::string& help,
                         const std::function<void(const std::string&)>& action) const {
  const auto each = [action](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) action(text);
  };
  return Option(app_->add_option_function<std::vector<std::string>>(flag, each, help)
                    ->type_name(shape)
                    ->type_size(1)
                    ->allow_extra_args(false));
}

void Command::toggle(const std::string& flag, const std::string& help, bool& target) const {
  app_->add_flag(flag, target, help);
}

bool Command::given(const std::string& flag) const { return app_->count(flag) > 0; }

std::vector<std::string> Command::all_given() const {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() > 0) flags.push_back(option->get_name());
  }
  return flags;
}

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::when_chosen(const std::function<void()>& chosen) const { app_->callback(chosen); }

void Command::leave_others() const { app_->allow_extras(); }

std::vector<std::string> Command::others() const { return app_->remaining(); }

void format_help(CLI::App& root) {
  const auto help = std::make_shared<HelpFormatter>();
  help->column_width(30);
  root.formatter(help);
}

}  // namespace plumbline::cli
