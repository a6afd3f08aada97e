// What every program of Onepen decides by: the outcome, told by what the caller may do next.
#include <onepen/result.h>

#include <cstdio>

int main() {
  const auto outcome = onepen::Outcome::epoch_closed;
  if (onepen::word(outcome) != "epoch-closed") return 1;
  std::puts("ok");
  return 0;
}
