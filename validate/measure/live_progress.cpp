// Progress on stderr: "validate: 37 of 912, gemm bf16 M=16;N=4096;K=4096, cold burst, 1:52 left".
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "ops/table/text.hpp"
#include "validate/measure/live.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

constexpr std::size_t kLineWidth = 100;  // longer lines would wrap and could not be rewritten
constexpr double kSecondsBetweenLines = 5;

std::string minutes(Seconds left) {
  const long whole = std::lround(left.in(units::s));
  char text[32];
  std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

class TextProgress : public Progress {
 public:
  TextProgress(std::ostream& messages, bool terminal) : messages_(messages), terminal_(terminal) {}

  void before(std::size_t done, std::size_t total, const LiveTask& task, Seconds left) override {
    const auto now = std::chrono::steady_clock::now();
    const bool soon = shown_ && std::chrono::duration<double>(now - last_).count() < kSecondsBetweenLines;
    if (!terminal_ && soon) return;
    last_ = now;
    shown_ = true;
    std::string line = "validate: " + std::to_string(done + 1) + " of " + std::to_string(total) + ", " + minutes(left) +
                       " left, " + case_text(task.what);
    if (task.kernels == KernelSet::library) line += ", library";
    if (!terminal_) {
      messages_ << line << "\n" << std::flush;
      return;
    }
    line.resize(kLineWidth, ' ');
    messages_ << "\r" << line << std::flush;
  }

  void finish() override {
    if (terminal_ && shown_) messages_ << "\r" << std::string(kLineWidth, ' ') << "\r" << std::flush;
  }

 private:
  std::ostream& messages_;
  bool terminal_, shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

std::unique_ptr<Progress> make_progress(std::ostream& messages, bool terminal) {
  return std::make_unique<TextProgress>(messages, terminal);
}

}  // namespace plumbline
