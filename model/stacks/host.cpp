#include "model/stacks/host.hpp"

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "arch/json_reader.hpp"

namespace plumbline {

MeasuredHost parse_host(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "name", "narrow_launch", "source"});
  if (root.at("schema").as_integer() != 1) root.at("schema").fail("expected 1");
  const Seconds time = root.at("narrow_launch").as_seconds();
  if (time <= Seconds{}) root.at("narrow_launch").fail("expected a time above 0");
  return {time, root.at("name").as_string() + ": " + root.at("source").as_string()};
}

MeasuredHost host_of_time(const std::string& text) {
  Seconds time;
  try {
    time = parse_seconds(text);
  } catch (const BadInput& bad) {
    throw BadInput(std::string("--host: ") + bad.what() + "; expected a host's file, or what its narrow launch takes");
  }
  if (time <= Seconds{}) throw BadInput("--host: expected a time above 0, found '" + text + "'");
  return {time, "as --host says"};
}

Stack on_host(const Stack& stack, const MeasuredHost& host) {
  if (!(stack.host.narrow_launch > Seconds{})) {
    throw BadInput("--host: nobody has measured a host beside stack " + stack.name +
                   " (its file has no narrow_launch); expected --stack hf-sdpa or hf-eager");
  }
  Stack out = stack;
  const double slower = host.narrow_launch / stack.host.narrow_launch;
  for (Seconds HostTime::*time : {&HostTime::each_launch, &HostTime::each_further_launch, &HostTime::each_layer,
                                  &HostTime::each_experts_layer, &HostTime::each_training_launch}) {
    out.host.*time = slower * (stack.host.*time);
  }
  if (out.host.training.narrow_launch > Seconds{}) out.host.training.narrow_launch = host.narrow_launch;
  out.host.narrow_launch = host.narrow_launch;
  out.host.measured = host.whose;
  return out;
}

}  // namespace plumbline
