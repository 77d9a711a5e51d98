#include "validate/record/measurement_csv.hpp"

#include <cstddef>
#include <optional>
#include <span>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"
#include "validate/record/filtered_rows.hpp"
#include "validate/record/number_field.hpp"
#include "validate/record/published.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

/// Where each column that we know stands in this file.
class Columns {
 public:
  explicit Columns(const CsvHeader& header)
      : op_(header.require("op")),
        shape_(header.require("shape")),
        time_(header.require("measured_us")),
        dtype_(header.find("dtype")),
        power_(header.find("measured_W")),
        board_(header.find("board_MHz")),
        gpu_(header.find("gpu")),
        clock_(header.find("clock")),
        data_(header.find("data")),
        stack_(header.find("stack")),
        kernel_(header.find("kernel")),
        scope_(header.find("scope")),
        id_(header.find("id")),
        cache_(header.find("cache")),
        plan_(header.find("plan")),
        held_out_(header.find("held_out")) {
    header.refuse_slips({"dtype", "held_out"});
  }

  Measurement read(std::span<const std::string_view> fields) const {
    Measurement row;
    const auto time = positive_number(fields[time_]);
    if (!time) throw BadInput("measured_us: expected a number above 0, found '" + std::string(fields[time_]) + "'");
    row.time = *time * units::us;
    StudyCase& what = row.what;
    const PublishedOperator said = published_operator(fields[op_], text(fields, dtype_), fields[shape_],
                                                      text(fields, scope_), text(fields, kernel_));
    what.op = parse_op(said.op, said.dtype, said.shape);
    what.shape = shape_text(what.op);
    row.published_power = number(fields, power_, "measured_W", units::W);
    row.conditions.board_clock = number(fields, board_, "board_MHz", units::MHz);
    const std::string_view clock = text(fields, clock_);
    row.clock_known = !clock.empty();
    if (row.clock_known) what.clock = read_clock_mode(clock, "clock");
    if (const std::string_view data = text(fields, data_); !data.empty()) what.data = read_data_pattern(data, "data");
    if (const std::string_view cache = text(fields, cache_); !cache.empty()) {
      what.cache = read_cache_state(cache, "cache");
      row.cache_known = true;
    }
    row.origin.gpu = text(fields, gpu_);
    row.origin.stack = text(fields, stack_);
    row.origin.scope = text(fields, scope_);
    row.origin.id = text(fields, id_);
    row.kernel = text(fields, kernel_);
    row.plan = text(fields, plan_);
    // The shape as the file has it: the split was made on published texts.
    what.held_out = read_held_out_flag(text(fields, held_out_), "held_out");
    row.held_out = what.held_out ? HeldOut::by_flag : plumbline::held_out(fields[op_], fields[shape_]);
    return row;
  }

 private:
  template <class Unit>
  static std::optional<Unit> number(std::span<const std::string_view> fields, std::optional<std::size_t> at,
                                    const char* column, Unit unit) {
    const std::string_view field = text(fields, at);
    if (field.empty()) return std::nullopt;
    const auto value = positive_number(field);
    if (!value) {
      throw BadInput(std::string(column) + ": expected a number above 0 or nothing, found '" + std::string(field) +
                     "'");
    }
    return *value * unit;
  }
  static std::string_view text(std::span<const std::string_view> fields, std::optional<std::size_t> at) {
    return at ? fields[*at] : std::string_view();
  }

  std::size_t op_, shape_, time_;
  std::optional<std::size_t> dtype_, power_, board_, gpu_, clock_, data_, stack_, kernel_, scope_, id_, cache_, plan_,
      held_out_;
};

}  // namespace

void read_measurements(std::string_view csv, const std::string& place, const std::vector<RowFilter>& where,
                       Measurements& into) {
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  const Columns columns(header);
  const TakeRow take = [&](std::span<const std::string_view> fields, const std::string& row_place) {
    into.rows.push_back(columns.read(fields));
    into.rows.back().what.place = row_place;
  };
  take_rows(reader, header, where, take, into.bad, into.filtered);
}

void read_measurement_file(const std::string& file, const std::vector<RowFilter>& where, Measurements& into) {
  const std::size_t first = into.rows.size();
  read_measurements(read_text_file(file), file, where, into);
  const Protocols protocols = Protocols::beside(file);
  for (std::size_t i = first; i < into.rows.size(); ++i) {
    Measurement& row = into.rows[i];
    // one that says itself what a call finds in L2 goes by that
    if (!row.cache_known) row.origin.protocol = protocols.of(row.what.op, row.origin.stack);
    const Protocol probed = timed_among_gpus(row.what.op, row.origin.stack, row.kernel);
    if (probed.known && !row.origin.protocol.known) row.origin.protocol = probed;
  }
}

}  // namespace plumbline
