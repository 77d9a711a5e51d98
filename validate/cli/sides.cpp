#include "validate/cli/sides.hpp"

#include <istream>
#include <iterator>

#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "validate/record/held_out.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

namespace {

void write_line(const std::string& place, HeldOut side, std::string& out) {
  append_csv_field(out, place);
  out += side == HeldOut::no ? ",train," : ",heldout,";
  out += name(side);
  out += '\n';
}

/// A number of a run's columns; one that is not there or empty is `otherwise`.
std::int64_t number_in(std::string_view text, std::int64_t otherwise, const std::string& place) {
  if (text.empty()) return otherwise;
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || text.size() > 12) {
      throw BadInput(place + ": expected a whole number or nothing, found '" + std::string(text) + "'");
    }
    value = 10 * value + (c - '0');
  }
  return value;
}

/// The side of one record, by the columns that its file has.
class Sides {
 public:
  explicit Sides(const CsvHeader& header) : header_(header), runs_(header.find("model").has_value()) {
    header.require(runs_ ? "phase" : "op");
    if (!runs_) header.require("shape");
  }

  HeldOut of(std::span<const std::string_view> fields, const std::string& place) const {
    const auto text = [&](std::string_view column) {
      const auto at = header_.find(column);
      return at ? fields[*at] : std::string_view();
    };
    if (read_held_out_flag(text("held_out"), place + ": held_out")) return HeldOut::by_flag;
    if (!runs_) return held_out(text("op"), text("shape"));
    const auto number = [&](std::string_view column, std::int64_t otherwise) {
      return number_in(text(column), otherwise, place + ": " + std::string(column));
    };
    return held_out(ModelRun{text("model"), text("phase"), number("gpus", 1), number("batch", 1), number("prompt", 0),
                             number("context", 0), number("output", 0)});
  }

 private:
  const CsvHeader& header_;
  bool runs_;
};

void csv_sides(const std::string& csv, const std::string& file, std::string& out) {
  CsvReader reader(csv, file);
  const CsvHeader header(reader);
  const Sides sides(header);
  while (reader.next()) {
    const std::string place = file + ":" + std::to_string(reader.line());
    if (reader.fields().size() != header.size()) {
      throw BadInput(place + ": expected " + std::to_string(header.size()) + " fields, found " +
                     std::to_string(reader.fields().size()));
    }
    write_line(place, sides.of(reader.fields(), place), out);
  }
}

void recorded_sides(const std::string& json, const std::string& file, std::string& out) {
  std::size_t i = 0;
  if (is_step_recording(json)) {
    for (const StepMeasurement& step : parse_step_recording(json, file).steps) {
      write_line(file + ": /steps/" + std::to_string(i++), held_out(step.what), out);
    }
    return;
  }
  for (const Measurement& c : parse_recording(json, file).cases) {
    write_line(file + ": /cases/" + std::to_string(i++), held_out(c.what), out);
  }
}

}  // namespace

std::string sides_text(const std::vector<std::string>& files, std::istream& in) {
  std::string out = "place,side,rule\n";
  for (const std::string& file : files) {
    const bool stdin_asked = file == "-";
    const std::string text = stdin_asked
                                 ? std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>())
                                 : read_text_file(file);
    if (file.ends_with(".json")) recorded_sides(text, file, out);
    else csv_sides(text, file, out);
  }
  return out;
}

}  // namespace plumbline
