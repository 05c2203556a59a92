package guard

// Version is what guard.version() answers where the guard of this program is
// installed. It grows with every release that changes schema guard.
const Version = 1
