"""The native core of forebay: one submodule a room of native/."""

from forebay._core import driver as driver, tape as tape
