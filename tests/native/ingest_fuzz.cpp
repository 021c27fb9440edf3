// ingest_fuzz: broken snapshots through the native reader and the settling of their heaps, for sanitizers. A program of
// its own: ingest_fuzz INPUTS SEED SNAPSHOT..., uncompressed pickles that are sound. What the answers mean is
// tests/fuzz.py's; here only that there is one: columns of one length with every index inside its table, or a Fault.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "emulate/history.hpp"
#include "ingest/fault.hpp"
#include "ingest/pickle.hpp"
#include "ingest/snapshot.hpp"

using namespace forebay;

namespace {

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void change(std::string& data, std::mt19937_64& dice) {
  const std::size_t at = dice() % data.size();
  switch (dice() % 5) {
    case 0:
      data[at] = static_cast<char>(dice());
      break;
    case 1:
      data[at] = static_cast<char>(data[at] ^ (1 << dice() % 8));
      break;
    case 2:
      data.erase(at, 1 + dice() % 8);
      break;
    case 3:
      data.insert(at, data.substr(dice() % data.size(), 1 + dice() % 40));
      break;
    default:
      data.replace(at, 4, dice() % 2 ? "\xff\xff\xff\xff" : std::string(4, '\0'));
  }
}

bool below(const std::vector<std::uint32_t>& indices, std::size_t size) {
  for (const std::uint32_t index : indices)
    if (index >= size) return false;
  return true;
}

bool sound(const ingest::Snapshot& s) {
  const std::size_t events = s.events.action.size(), sites = s.sites.offsets.size() - 1;
  return s.events.address.size() == events && s.events.size.size() == events && s.events.site.size() == events &&
         s.events.pool.second.size() == events && below(s.events.site, sites) && below(s.blocks.site, sites) &&
         below(s.events.name, s.strings.size()) && below(s.blocks.segment, s.segments.address.size()) &&
         below(s.sites.index, s.sites.file.size()) && below(s.sites.file, s.strings.size()) &&
         s.sites.offsets.back() == s.sites.index.size();
}

// All events as if they were of one device, with streams and owners cut to numbers: whatever a file says, this ends.
void settle(const ingest::Snapshot& s) {
  const ingest::EventColumns& e = s.events;
  std::vector<std::uint8_t> action(e.action.size());
  for (std::size_t i = 0; i < action.size(); ++i) action[i] = e.action[i] > 7 ? 7 : e.action[i];
  const std::vector<std::uint32_t> stream(e.stream.begin(), e.stream.end()),
      owner(e.pool.first.begin(), e.pool.first.end());
  emulate::Heap heap;
  for (std::size_t i = 0; i < s.segments.address.size(); ++i)
    (void)heap.reserve(s.segments.address[i], {s.segments.size[i], 0, 0, s.segments.site[i], s.segments.large[i] != 0,
                                               s.segments.expandable[i] != 0});
  for (std::size_t i = 0; i < s.blocks.address.size(); ++i)
    if (s.blocks.state[i] != 0)
      (void)heap.place(s.blocks.address[i],
                       {s.blocks.size[i], s.blocks.requested[i], 0, 0, s.blocks.site[i], false, false});
  emulate::settle({action, e.has_pool, e.address, e.size, stream, owner, e.site}, heap, emulate::Settings{});
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return std::fprintf(stderr, "ingest_fuzz INPUTS SEED SNAPSHOT...\n"), 2;
  const long inputs = std::atol(words[1]);
  std::mt19937_64 dice(static_cast<std::uint64_t>(std::atol(words[2])));
  std::vector<std::string> originals;
  for (int i = 3; i < count; ++i) originals.push_back(read(words[i]));
  long good = 0;
  for (long n = 0; n < inputs; ++n) {
    std::string data = originals[dice() % originals.size()];
    for (std::uint64_t changes = 1 + dice() % 8; changes > 0 && !data.empty(); --changes) change(data, dice);
    try {
      const ingest::Document document = ingest::read_pickle(data);
      const ingest::Snapshot snapshot = ingest::read_snapshot(document, data.size());
      if (!sound(snapshot)) return std::fprintf(stderr, "ingest_fuzz: input %ld: columns that do not fit\n", n), 1;
      settle(snapshot);
      ++good;
    } catch (const ingest::Fault& fault) {
      if (std::string(fault.what()).empty()) return std::fprintf(stderr, "ingest_fuzz: input %ld: no word\n", n), 1;
    }
  }
  std::printf("ingest_fuzz: %ld of %ld broken snapshots read, the others refused\n", good, inputs);
  return 0;
}
