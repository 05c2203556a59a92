package main

// Root certificates for where the system has none, as in an image made from
// scratch: providers and databases are spoken to over TLS.
import _ "golang.org/x/crypto/x509roots/fallback"
