// A predict-model that lists what fuzz/programs.py asks for first and has the fault that FAULT names otherwise.
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string_view>

namespace {

// Volatile, so that neither the compiler nor its warnings see the fault.
int overflow() {
  volatile int most = std::numeric_limits<int>::max();
  most = most + 1;
  return 0;
}

int use_after_free() {
  int* volatile number = new int{1};
  delete number;
  return *number > 1 ? 1 : 0;
}

int leak() {
  int* volatile number = new int{1};
  const int kept = *number;
  number = nullptr;
  return kept - 1;
}

}  // namespace

int main(int count, char** words) {
  if (count > 2 && std::string_view{words[1]} == "list") {
    std::cout << "heading\n" << (std::string_view{words[2]} == "ops" ? "gemm   M,N,K\n" : "h200   a card\n");
    return 0;
  }
  const char* fault = std::getenv("FAULT");
  const std::string_view asked = fault == nullptr ? "" : fault;
  return asked == "overflow" ? overflow() : asked == "leak" ? leak() : asked == "use_after_free" ? use_after_free() : 0;
}
