package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// quickly runs one experiment as `bench quick` does, on a guard that was
// changed by a file of testdata.
func quickly(t *testing.T, experiment, change string) error {
	t.Helper()
	o := runOptions{only: []string{experiment}, scale: quickScale / 2, keys: 1e4, quick: true, dataDir: "/var/tmp"}
	if change != "" {
		o.then = "testdata/" + change
	}
	return o.check(t.Context(), io.Discard)
}

// The tests share two cores and a disk: one after the other.
func TestTheQuickRunTellsAGoodGuardFromABrokenOne(t *testing.T) {
	t.Run("good", func(t *testing.T) {
		require.NoError(t, quickly(t, "floor", ""))
	})
	t.Run("slow", func(t *testing.T) {
		require.ErrorContains(t, quickly(t, "floor", "slow_claim.sql"), "claim takes")
	})
	t.Run("wrong bytes", func(t *testing.T) {
		require.ErrorContains(t, quickly(t, "http", "wrong_replay.sql"), "other bytes")
	})
	t.Run("charged twice", func(t *testing.T) {
		require.ErrorContains(t, quickly(t, "http", "double_charge.sql"), "charges")
	})
	t.Run("no such experiment", func(t *testing.T) {
		require.ErrorContains(t, quickly(t, "flor", ""), "no experiment flor")
	})
}
