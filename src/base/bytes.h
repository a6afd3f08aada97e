// Bytes, and bounded little-endian reading and writing for every format of ours. Plain values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace onepen {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes to_bytes(ByteView view) { return Bytes(view.begin(), view.end()); }

// Appends to a buffer it does not own.
class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}
  template <class T>
    requires std::is_unsigned_v<T>
  void u(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
  }
  void raw(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void text(std::string_view s) {  // u32 length, then the bytes
    u<std::uint32_t>(static_cast<std::uint32_t>(s.size()));
    raw(as_bytes(s));
  }
  std::size_t size() const { return out_.size(); }

 private:
  Bytes& out_;
};

// Reads from a view; a read past the end sets failed() and yields zeros, so a decoder checks once at the end (and before it trusts a length).
class ByteReader {
 public:
  explicit ByteReader(ByteView in) : in_(in) {}
  template <class T>
    requires std::is_unsigned_v<T>
  T u() {
    if (in_.size() - at_ < sizeof(T)) return fail<T>();
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (static_cast<T>(std::to_integer<std::uint8_t>(in_[at_ + i])) << (8 * i)));
    at_ += sizeof(T);
    return value;
  }
  ByteView raw(std::size_t n) {
    if (in_.size() - at_ < n) {
      failed_ = true;
      at_ = in_.size();
      return {};
    }
    ByteView v = in_.subspan(at_, n);
    at_ += n;
    return v;
  }
  std::string text(std::size_t max) {  // u32 length, then the bytes; longer than max fails
    auto n = u<std::uint32_t>();
    if (n > max) {
      failed_ = true;
      return {};
    }
    return std::string(as_text(raw(n)));
  }
  std::size_t left() const { return in_.size() - at_; }
  std::size_t at() const { return at_; }
  bool failed() const { return failed_; }

 private:
  template <class T>
  T fail() {
    failed_ = true;
    at_ = in_.size();
    return 0;
  }
  ByteView in_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace onepen
