package guard_test

import (
	"crypto/sha256"
	"testing"

	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func sum(body string) []byte {
	hash := sha256.Sum256([]byte(body))
	return hash[:]
}
