"""adapters: our pools behind the interfaces that other libraries' users already have. Pools are runtime's and native/pool's; nothing here
is imported before it is asked for, and neither are those libraries."""
