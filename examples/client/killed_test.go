package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/freeport"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/stage"
)

// The server is a process that is killed with kill -9 while the provider takes
// the money, and started again. The program asks on until the claim's lease has
// run out and the server has asked the provider.
func TestServerKilledAtWork(t *testing.T) {
	t.Parallel()
	binary, err := stage.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	for name, command := range programs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			server, simulator := startProcess(t, binary)
			require.NoError(t, simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "charge", Fault: "delay", DelayMS: 1000}))
			p := program{t: t, command: command, folder: t.TempDir(), budget: "120"}
			ran := make(chan ended, 1)
			go func() { ran <- p.run(server.URL(), "order-1", "1000") }()
			require.Eventually(t, func() bool { return simulator.Requests()["alipay/charge"] == 1 }, time.Minute, time.Millisecond)
			server.Kill()
			require.NoError(t, server.Start(ctx))

			end := <-ran
			require.Equal(t, paid, end.code, end.stderr)
			require.Contains(t, end.stdout, `"status":"succeeded"`)
			require.Equal(t, 1, simulator.Requests()["alipay/charge"])
			require.Len(t, simulator.Ledger(), 1)
		})
	}
}

// startProcess starts payonce with the shortest lease that it takes, and a
// simulator for it.
func startProcess(t *testing.T, binary string) (*stage.Server, *stage.Simulator) {
	t.Helper()
	ctx := t.Context()
	db := pgtest.New(t)
	require.NoError(t, payments.StoreAPIKey(ctx, db.Conn(t), apiKey, "shop", ""))
	keys, err := simulatorKeys()
	require.NoError(t, err)
	address, err := freeport.Address(ctx)
	require.NoError(t, err)
	simulator, err := stage.NewSimulator(ctx, keys, "http://"+address)
	require.NoError(t, err)
	t.Cleanup(simulator.Close)
	server, err := stage.NewServer(ctx, stage.ServerOptions{
		Binary: binary, Args: []string{"serve", "--provider-deadline", "2s", "--lease", "12s"}, Address: address,
		Environment: append(simulator.Environment("http://"+address), "PAYONCE_DATABASE_URL="+db.AppURL),
		Dir:         t.TempDir(), Name: "server",
	})
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	require.NoError(t, server.Start(ctx))
	return server, simulator
}
