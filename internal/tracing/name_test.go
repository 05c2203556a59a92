package tracing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/tracing"
)

func TestStatementsAreNamedByTheirFunction(t *testing.T) {
	t.Parallel()
	for _, sql := range append(guard.Statements(), payments.Statements()...) {
		require.Regexp(t, `^(guard|payments)\.[a-z_]+$`, tracing.StatementName(sql), sql)
	}
	require.Equal(t, "SELECT", tracing.StatementName("SELECT 1"))
	require.Equal(t, "guard.claim", tracing.StatementName("SELECT outcome FROM guard.claim(p_scope => $1::text)"))
}
