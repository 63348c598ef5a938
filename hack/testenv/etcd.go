package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd serves an etcd of one member which never waits for the disk: the data lives as long as a test.
func runEtcd() int {
	flags := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	dataDir := flags.String("data-dir", "", "folder of the data")
	clientURL := flags.String("listen-client-url", "", "URL for clients, as http://127.0.0.1:2379")
	peerURL := flags.String("listen-peer-url", "", "URL for peers, of which there are none")
	logLevel := flags.String("log-level", "warn", "debug, info, warn, error")
	if err := flags.Parse(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 2
	}
	if err := serveEtcd(*dataDir, *clientURL, *peerURL, *logLevel); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

func serveEtcd(dataDir, clientURL, peerURL, logLevel string) error {
	client, err := url.Parse(clientURL)
	if err != nil {
		return fmt.Errorf("--listen-client-url: %w", err)
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return fmt.Errorf("--listen-peer-url: %w", err)
	}

	config := embed.NewConfig()
	config.Dir = dataDir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	config.QuotaBackendBytes = 8 << 30
	config.MaxRequestBytes = 8 << 20
	config.LogLevel = logLevel

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer etcd.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return fmt.Errorf("not ready after a minute")
	case <-stop:
		return nil
	}
	select {
	case err := <-etcd.Err():
		return err
	case <-stop:
		return nil
	}
}
