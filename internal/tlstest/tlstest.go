// Package tlstest issues certificates that live for a test.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	root   *x509.Certificate
	serial atomic.Int64
}

// NewAuthority makes an authority that nobody else trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: a256(t)}
	a.root = a.sign(a.key, &x509.Certificate{
		Subject: pkix.Name{CommonName: "Root of a test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func a256(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return key
}

func (a *Authority) sign(key *ecdsa.PrivateKey, template *x509.Certificate) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(a.serial.Add(1))
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.root
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.t.Fatalf("sign a certificate: %v", err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatalf("read a certificate: %v", err)
	}
	return signed
}

// Issue makes a certificate of a server and its key, both PEM. The first name
// is the subject's; each may be a host or an IP address.
func (a *Authority) Issue(names ...string) (cert, key []byte) {
	a.t.Helper()
	made := a256(a.t)
	template := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	private, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		a.t.Fatalf("write a key: %v", err)
	}
	return encode("CERTIFICATE", a.sign(made, template).Raw), encode("PRIVATE KEY", private)
}

// Root is the authority's own certificate, PEM.
func (a *Authority) Root() []byte { return encode("CERTIFICATE", a.root.Raw) }

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Client is the configuration of one who trusts the authority and asks for a
// server by name, in any version of TLS.
func (a *Authority) Client(name string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.root)
	return &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS10} //nolint:gosec // old versions are to be refused by the server
}
