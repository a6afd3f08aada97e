#include "slow_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <vector>

namespace onepen::bench {
namespace {

constexpr std::size_t kChunk = 64u << 10;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

struct Late {
  Clock::time_point at;
  std::string bytes;
};

}  // namespace

SlowWire::SlowWire(int server_port, std::chrono::milliseconds delay) : server_port_(server_port), delay_(delay) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, any, size) != 0 || ::listen(listener_, 128) != 0 || ::getsockname(listener_, any, &size) != 0)
    give_up("no port on loopback");
  port_ = ntohs(address.sin_port);
  std::thread([this] { accept_all(); }).detach();
}

void SlowWire::accept_all() {
  for (int client = -1; (client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) std::thread([this, client] { carry(client); }).detach();
}

// A request begins with its method: the client sends the next one only after the answer to the one before.
void SlowWire::count(std::string_view bytes) {
  const auto line = bytes.substr(0, bytes.find('\n'));
  for (const std::string_view method : {"GET ", "PUT ", "POST ", "DELETE ", "HEAD "}) {
    if (!line.starts_with(method)) continue;
    ++requests_;
    if (method == "PUT " && (line.find("@log") != std::string_view::npos || line.find("%40log") != std::string_view::npos)) ++log_puts_;
  }
}

void SlowWire::carry(int client) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = loopback(server_port_);
  if (server < 0 || ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(client);
    if (server >= 0) ::close(server);
    return;
  }
  no_delay(client);
  no_delay(server);
  std::deque<Late> late;  // on its way to the server
  std::vector<char> chunk(kChunk);
  for (bool open = true; open;) {
    const auto now = Clock::now();
    while (open && !late.empty() && late.front().at <= now) {
      open = write_all(server, late.front().bytes);
      late.pop_front();
    }
    timespec wait{};
    if (!late.empty()) {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(late.front().at - now).count();
      wait = {left / 1'000'000'000, left % 1'000'000'000};
    }
    std::array<pollfd, 2> ends{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (!open || ::ppoll(ends.data(), ends.size(), late.empty() ? nullptr : &wait, nullptr) < 0) break;
    if (ends[0].revents != 0) {
      const auto n = ::recv(client, chunk.data(), chunk.size(), 0);
      open = n > 0;
      if (open) count({chunk.data(), static_cast<std::size_t>(n)});
      if (open) late.push_back({Clock::now() + delay_, std::string(chunk.data(), static_cast<std::size_t>(n))});
    }
    if (open && ends[1].revents != 0) {
      const auto n = ::recv(server, chunk.data(), chunk.size(), 0);
      open = n > 0 && write_all(client, {chunk.data(), static_cast<std::size_t>(n)});
    }
  }
  ::close(client);
  ::close(server);
}

}  // namespace onepen::bench
