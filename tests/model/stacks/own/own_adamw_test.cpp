// Our optimizer's update: what was recorded of it, to which nothing was fitted.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"

namespace plumbline::own_adamw_test {
namespace {

TEST(OwnAdamw, TakesWhatWasRecorded) {
  MachineOptions options{"own"};
  options.clock = ClockMode::burst;
  const Machine machine = machines().get({"h200_sxm", options});
  int rows = 0;
  for (const char* side : {"train", "heldout"}) {
    const std::string file = data_folder() + "/measurements/own/h200_sxm/adamw." + side + ".csv";
    const std::string text = read_text_file(file);
    CsvReader reader(text, file);
    const CsvHeader header(reader);
    const std::size_t shape = header.require("shape"), measured = header.require("measured_us");
    while (reader.next()) {
      const auto fields = reader.fields();
      const double us = std::stod(std::string(fields[measured]));
      if (us < 100) continue;  // the events' own time is no small part of those
      const OpPrediction p = predict(parse_op("adamw", "bf16", fields[shape]), machine);
      EXPECT_EQ(p.family, "rowwise");
      EXPECT_NEAR(std::log(p.time.in(units::us) / us), 0, 0.075) << fields[shape];
      ++rows;
    }
  }
  EXPECT_EQ(rows, 6);
}

}  // namespace
}  // namespace plumbline::own_adamw_test
