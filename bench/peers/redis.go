package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/payonce/payonce/bench/internal/guardops"
	"github.com/payonce/payonce/bench/internal/lab"
	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/guard"
)

// entry is what stands under a key: of whom, and the response once there is one.
type entry struct {
	Path     string
	Hash     []byte
	Response *guard.Response `json:",omitempty"`
}

// redisPeer takes a key with SET NX GET, one round trip, and overwrites it with
// the response, another one.
type redisPeer struct{ client *redis.Client }

func openRedisAlways(ctx context.Context, l *lab.Lab) (*peer, error) {
	return openRedis(ctx, l, "always")
}

func openRedisEverySecond(ctx context.Context, l *lab.Lab) (*peer, error) {
	return openRedis(ctx, l, "everysec")
}

func openRedis(ctx context.Context, l *lab.Lab, fsync string) (*peer, error) {
	address, stop, err := startRedis(ctx, l, fsync)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: address, PoolSize: poolSize})
	closeAll := func() {
		_ = client.Close()
		stop()
	}
	r := redisPeer{client: client}
	done := guardops.NewRequest()
	if err := errors.Join(r.ready(ctx, fsync), r.once(ctx, done)); err != nil {
		closeAll()
		return nil, err
	}
	return &peer{
		name:   "Redis, AOF fsync " + fsync + ": SET NX GET, SET",
		fresh:  func(ctx context.Context) error { return r.once(ctx, guardops.NewRequest()) },
		replay: func(ctx context.Context) error { return r.replay(ctx, done) },
		close:  closeAll,
	}, nil
}

// startRedis runs a server of our own beside PostgreSQL's files.
func startRedis(ctx context.Context, l *lab.Lab, fsync string) (string, func(), error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("redis-server is not installed (Debian: `apt-get install redis-server`)")
	}
	address, err := freeport.Address(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("start Redis: %w", err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, fmt.Errorf("find a free port for Redis: %w", err)
	}
	dir, err := os.MkdirTemp(l.Dir(), "redis-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for Redis: %w", err)
	}
	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", //nolint:gosec,noctx // stopped below
		"--appendonly", "yes", "--appendfsync", fsync)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start Redis: %w", err)
	}
	return address, func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}, nil
}

// ready waits for the server and holds it to the durability it is named after.
func (r redisPeer) ready(ctx context.Context, fsync string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for r.client.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for Redis: %w", ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	got, err := r.client.ConfigGet(ctx, "append*").Result()
	if err != nil {
		return fmt.Errorf("read Redis's settings: %w", err)
	}
	if got["appendonly"] != "yes" || got["appendfsync"] != fsync {
		return fmt.Errorf("redis has appendonly %s, appendfsync %s", got["appendonly"], got["appendfsync"])
	}
	return nil
}

// take claims a key for a request, or returns what stands under it.
func (r redisPeer) take(ctx context.Context, request guard.Request) (*entry, error) {
	mine, err := json.Marshal(entry{Path: request.Path, Hash: request.Hash})
	if err != nil {
		return nil, fmt.Errorf("encode an entry: %w", err)
	}
	name := request.Scope + ":" + request.Key
	raw, err := r.client.SetArgs(ctx, name, mine, redis.SetArgs{Mode: "NX", Get: true, TTL: guardops.TTL}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("take the key: %w", err)
	}
	var found entry
	if err := json.Unmarshal([]byte(raw), &found); err != nil {
		return nil, fmt.Errorf("decode an entry: %w", err)
	}
	switch {
	case found.Path != request.Path || !bytes.Equal(found.Hash, request.Hash):
		return nil, errMismatch
	case found.Response == nil:
		return nil, errConflict
	}
	return &found, nil
}

func (r redisPeer) once(ctx context.Context, request guard.Request) error {
	found, err := r.take(ctx, request)
	if err != nil {
		return err
	}
	if found != nil {
		return errors.New("a new key is known already")
	}
	response := guardops.Response()
	done, err := json.Marshal(entry{Path: request.Path, Hash: request.Hash, Response: &response})
	if err != nil {
		return fmt.Errorf("encode an entry: %w", err)
	}
	if err := r.client.Set(ctx, request.Scope+":"+request.Key, done, guardops.TTL).Err(); err != nil {
		return fmt.Errorf("store the response: %w", err)
	}
	return nil
}

func (r redisPeer) replay(ctx context.Context, request guard.Request) error {
	found, err := r.take(ctx, request)
	if err != nil {
		return err
	}
	if found == nil || !bytes.Equal(found.Response.Body, guardops.Response().Body) {
		return errors.New("redis replayed other bytes than were stored")
	}
	return nil
}
