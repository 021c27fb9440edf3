// opcodes: the bytes of the pickle machine that are understood, and why each of the others is refused.
// What they do is pickle.cpp's. Source: the opcode table of Python's pickletools.
#pragma once

#include <string_view>

namespace forebay::ingest {

enum Op : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

// What a refused opcode would have done; empty for a byte that is no opcode at all.
inline std::string_view refusal(unsigned char op) {
  switch (op) {
    case 'c':
    case 0x93:
      return "names a class or a function to import";
    case 'i':
    case 'o':
    case 0x81:
    case 0x92:
      return "builds an object of a class";
    case 'R':
      return "calls a function";
    case 'b':
      return "sets the state of an object";
    case 'P':
    case 'Q':
      return "refers to an object outside the file";
    case 0x82:
    case 0x83:
    case 0x84:
      return "names a registered extension class";
    case 0x8f:
    case 0x90:
    case 0x91:
      return "builds a set";
    case 0x97:
    case 0x98:
      return "refers to a buffer outside the file";
    default:
      return {};
  }
}

}  // namespace forebay::ingest
