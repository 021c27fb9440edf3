// reading: how clocks are joined.
#include "order/reading.hpp"

namespace forebay::order {

Reading Reading::plausible() const {
  Reading other = *this;
  other.trust_ = Trust::plausible;
  for (std::size_t i = 1; i < hosts_.size(); ++i) other.hosts_.front().clock.join(hosts_[i].clock);
  if (!other.hosts_.empty()) other.hosts_.resize(1);
  for (Stream& s : other.streams_) s.host_version = 0;
  return other;
}

Reading::Stream& Reading::at(StreamId s) {
  if (s >= streams_.size()) streams_.resize(s + 1);
  Stream& stream = streams_[s];
  if (!stream.known) {
    stream.known = true;
    stream.facts = actors_->facts(s);
    stream.actor = actors_->stream(s);
  }
  return stream;
}

std::size_t Reading::slot(ThreadId t) {
  const std::size_t i = trust_ == Trust::plausible ? 0 : t;
  if (i >= hosts_.size()) hosts_.resize(i + 1);
  hosts_[i].known = true;
  return i;
}

Reading::Legacy& Reading::legacy(DeviceId d) {
  const auto i = static_cast<std::size_t>(d < 0 ? 0 : d);
  if (i >= legacies_.size()) legacies_.resize(i + 1);
  return legacies_[i];
}

bool Reading::blocking(const Stream& s) const {
  if (trust_ == Trust::captured) return false;
  if (!s.facts.kind) return trust_ == Trust::plausible;
  return *s.facts.kind == StreamClass::blocking || *s.facts.kind == StreamClass::per_thread;
}

void Reading::join_host(Stream& stream, ThreadId t) {
  if (trust_ == Trust::captured) return;
  const std::size_t i = slot(t);
  if (stream.host == i && stream.host_version == hosts_[i].version) return;
  stream.clock.join(hosts_[i].clock);
  stream.host = i;
  stream.host_version = hosts_[i].version;
}

// A blocking stream's next item comes after all legacy work so far: joining early adds nothing that it would not learn.
void Reading::join_legacy(Stream& stream) {
  const Legacy& l = legacy(stream.facts.device);
  if (l.version == stream.legacy_version) return;
  stream.clock.join(at(l.stream).clock);
  stream.legacy_version = l.version;
}

void Reading::moved(StreamId s, Stream& stream) {
  if (is_legacy(stream)) {
    Legacy& l = legacy(stream.facts.device);
    l.stream = s;
    ++l.version;
  } else if (!stream.moved && blocking(stream)) {
    stream.moved = true;
    legacy(stream.facts.device).moved.push_back(s);
  }
}

// What is put into a stream comes after all that its thread did or knows, and stands where the legacy stream says.
Reading::Stream& Reading::enter(StreamId s, ThreadId t) {
  at(s);
  if (is_legacy(streams_[s]) && trust_ != Trust::captured) {
    Legacy& l = legacy(streams_[s].facts.device);
    for (StreamId other : l.moved) {
      streams_[s].clock.join(streams_[other].clock);
      streams_[other].moved = false;
    }
    l.moved.clear();
  }
  if (blocking(streams_[s])) join_legacy(streams_[s]);
  join_host(streams_[s], t);
  moved(s, streams_[s]);
  return streams_[s];
}

void Reading::work(StreamId s, ThreadId t, Epoch e) { enter(s, t).clock.set(e); }

void Reading::access(ThreadId t, Epoch e) {
  Host& host = hosts_[slot(t)];
  host.clock.set(e);
  ++host.version;
}

void Reading::mark(StreamId s, Epoch e) {
  Stream& stream = at(s);
  stream.clock.set(e);
  moved(s, stream);
}

void Reading::record(StreamId s, ThreadId t, EventId event) { events_[event] = enter(s, t).clock; }

void Reading::wait(StreamId s, ThreadId t, EventId event) {
  Stream& stream = enter(s, t);
  if (const auto found = events_.find(event); found != events_.end()) stream.clock.join(found->second);
}

void Reading::learn(ThreadId t, const Clock& clock) {
  if (trust_ == Trust::captured) return;
  Host& host = hosts_[slot(t)];
  host.clock.join(clock);
  ++host.version;
}

void Reading::sync_event(ThreadId t, EventId event) {
  if (const auto found = events_.find(event); found != events_.end()) learn(t, found->second);
}
void Reading::sync_stream(ThreadId t, StreamId s) { learn(t, place(s)); }
void Reading::sync_device(ThreadId t, DeviceId d) { learn(t, device(d)); }

void Reading::unseen_wait(StreamId s, ThreadId t) {
  Stream& stream = enter(s, t);
  if (trust_ == Trust::plausible) stream.clock.join(everything());
}
void Reading::unseen_sync(ThreadId t) {
  if (trust_ == Trust::plausible) learn(t, everything());
}
void Reading::implied_sync(ThreadId t, DeviceId d) {
  if (trust_ == Trust::plausible) sync_device(t, d);
}

// The legacy stream's own clock must not learn from a mere look at it: later work of blocking streams would lean on it.
Clock Reading::place(StreamId s) {
  at(s);
  if (blocking(streams_[s])) join_legacy(streams_[s]);
  Clock clock = streams_[s].clock;
  if (is_legacy(streams_[s]))
    for (StreamId other : legacy(streams_[s].facts.device).moved) clock.join(streams_[other].clock);
  return clock;
}

Clock Reading::place(StreamId s, ThreadId t) {
  Clock clock = place(s);
  if (trust_ != Trust::captured) clock.join(host(t));
  return clock;
}

Clock Reading::device(DeviceId d) const {
  Clock clock;
  for (const Stream& s : streams_)
    if (s.known && s.facts.device == d) clock.join(s.clock);
  return clock;
}

Clock Reading::everything() const {
  Clock clock;
  for (const Stream& s : streams_) clock.join(s.clock);
  for (const Host& h : hosts_) clock.join(h.clock);
  return clock;
}

Clock Reading::known_to_all() const {
  const Clock* first = nullptr;
  for (const Host& h : hosts_)
    if (h.known && first == nullptr) first = &h.clock;
  Clock clock = first == nullptr ? Clock{} : *first;
  for (const Host& h : hosts_)
    if (h.known) clock.meet(h.clock);
  return clock;
}

}  // namespace forebay::order
