package pspsim_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

func TestKeysAreMadeOnceAndKeptPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "keys")

	// As processes that start at the same time.
	loaded := make([]*pspsim.Keys, 4)
	var starts sync.WaitGroup
	for i := range loaded {
		starts.Go(func() {
			keys, err := pspsim.LoadOrCreateKeys(dir)
			if err == nil {
				loaded[i] = keys
			}
		})
	}
	starts.Wait()
	require.NotNil(t, loaded[0])
	for _, keys := range loaded[1:] {
		require.Equal(t, loaded[0], keys)
	}
	public, err := os.ReadFile(filepath.Join(dir, "alipay-public.pem"))
	require.NoError(t, err)
	require.Equal(t, loaded[0].AlipayPublicKey, string(public))

	folder, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 13, "only the keys stay, no temporary files")
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}

func TestMissingKeyIsAddedToTheOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, err := pspsim.LoadOrCreateKeys(dir)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "stripe-secret-key.txt")))

	after, err := pspsim.LoadOrCreateKeys(dir)
	require.NoError(t, err)
	require.NotEqual(t, before.StripeSecretKey, after.StripeSecretKey)
	after.StripeSecretKey = before.StripeSecretKey
	require.Equal(t, before, after)
}

func TestDamagedKeyIsNamed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alipay-merchant.pem", "wechat-api-v3-key.txt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("damaged content\n"), 0o600))
			_, err := pspsim.LoadOrCreateKeys(dir)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, "remove the file")
			require.NotContains(t, err.Error(), "damaged content")
		})
	}
	_, err := pspsim.LoadOrCreateKeys(filepath.Join(os.DevNull, "keys"))
	require.ErrorContains(t, err, "folder of the development keys")
}
