package guard_test

import (
	"testing"

	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
