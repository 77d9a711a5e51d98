// A study: which batch and how many GPUs give the most tokens a joule at 25 ms a step, and which number of the card counts.
#include <cstdio>

#include <plumbline/model/study.hpp>
using namespace plumbline;

int main() {
  Study study;
  study.base = {{"model", "llama-3.1-70b"}, {"gpu", "h200"}, {"phase", "decode"}, {"context", "4096"}};
  study.axes = {axis("tp", "2,4,8"), axis("batch", "8:64:x2")};
  study.where = {"fits", "latency_s<=0.025"};
  study.columns = {"latency_s", "tokens_per_J"};
  sweep(study, SweepOptions{}, [](std::string_view lines) { std::fwrite(lines.data(), 1, lines.size(), stdout); });

  study.axes.clear();
  study.base.push_back({"tp", "4"});
  const ParameterEffect first = sensitivity(study).parameters.front();
  std::printf("%s: 10 %% more, latency x%.3f\n", first.path.c_str(), first.latency_ratio.value);
}
