// Lists for `validate accuracy` and `validate coverage` that take a moment, for tests of how they print and fail.
#pragma once

namespace plumbline::test {

inline constexpr const char* kShortAccuracyList =
    R"({"schema": "plumbline.accuracy.v1", "note": "one set", "sets": [
  {"label": "TensorRT-LLM", "file": "measurements/aiconfigurator/h100_sxm/attention_prefill.heldout.csv", "gpu": "h100_sxm",
   "kernels": "library", "where": ["stack~trtllm"], "min_us": 10, "median_percent_at_most": {"attention_prefill": 100}}]})";

inline constexpr const char* kShortCoverageList =
    R"({"note": "one recording",
  "sources": [{"gpu": "h200_sxm", "kernels": "own", "recording": "h200/rowwise.json"}]})";

}  // namespace plumbline::test
