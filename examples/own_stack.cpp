// The same step under each stack that is shipped: whose kernels matter.
#include <cstdio>

#include <plumbline/model/predict.hpp>
using namespace plumbline;

int main() {
  const Llm llm = load_llm("llama-3.1-8b");
  Workload decode;
  decode.batch = 32;
  decode.context = 4096;
  for (const std::string& name : stack_names()) {
    MachineOptions options;
    options.stack = name;  // or the path of a file like those of data/stacks
    const Machine machine = make_machine(load_gpu("h200"), options);
    std::printf("%-8s %.2f ms\n", name.c_str(), predict(llm, decode, machine, RunOptions{}).latency.in(units::ms));
  }
}
