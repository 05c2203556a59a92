package main

import (
	"context"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
)

const guardName = "payonce: claim + complete"

func openGuard(ctx context.Context, l *lab.Lab) (*peer, error) {
	db, err := l.Database(ctx, "bench_peers")
	if err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, poolSize)
	if err != nil {
		return nil, err
	}
	done := guardops.NewRequest()
	if err := guardops.Pair(ctx, pool, done); err != nil {
		pool.Close()
		return nil, err
	}
	return &peer{
		name:   guardName,
		fresh:  func(ctx context.Context) error { return guardops.Pair(ctx, pool, guardops.NewRequest()) },
		replay: func(ctx context.Context) error { return guardops.Replay(ctx, pool, done) },
		close:  pool.Close,
	}, nil
}
