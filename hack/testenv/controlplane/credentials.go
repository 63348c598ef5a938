package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// user is a line of the API server's token file.
type user struct {
	name, group, token string
}

// credentials are the files by which the components and the test trust each other, made anew at each start.
type credentials struct {
	admin, scheduler, controllerManager user

	caFile, certFile, keyFile string
	// serviceAccountKeyFile signs the tokens of ServiceAccounts, and verifies them.
	serviceAccountKeyFile string
	tokenFile             string
	caPEM                 []byte
}

func newUser(name, group string) (user, error) {
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return user{}, err
	}
	return user{name: name, group: group, token: hex.EncodeToString(token)}, nil
}

// newCredentials writes the certificates, keys and tokens of one control plane into dir.
func newCredentials(dir string) (*credentials, error) {
	created := &credentials{
		caFile:                filepath.Join(dir, "ca.crt"),
		certFile:              filepath.Join(dir, "tls.crt"),
		keyFile:               filepath.Join(dir, "tls.key"),
		serviceAccountKeyFile: filepath.Join(dir, "service-account.key"),
		tokenFile:             filepath.Join(dir, "tokens.csv"),
	}
	var err error
	if created.admin, err = newUser("admin", "system:masters"); err != nil {
		return nil, err
	}
	// The bootstrap policy of RBAC knows kube-scheduler; the controllers' rights belong to one ServiceAccount each.
	if created.scheduler, err = newUser("system:kube-scheduler", "system:authenticated"); err != nil {
		return nil, err
	}
	if created.controllerManager, err = newUser("system:kube-controller-manager", "system:masters"); err != nil {
		return nil, err
	}
	var lines strings.Builder
	for i, user := range []user{created.admin, created.scheduler, created.controllerManager} {
		fmt.Fprintf(&lines, "%s,%s,uid-%d,%q\n", user.token, user.name, i, user.group)
	}
	if err := os.WriteFile(created.tokenFile, []byte(lines.String()), 0o600); err != nil {
		return nil, err
	}
	if err := created.writeCertificates(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return created, writeKey(created.serviceAccountKeyFile, key)
}

// writeCertificates makes an authority and, signed by it, one certificate that all components serve with.
func (c *credentials) writeCertificates() error {
	// An hour back: the clock of the machine may be set while a test runs.
	notBefore, notAfter := time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "testenv"},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "testenv-server"},
		NotBefore:    notBefore,
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, &serverKey.PublicKey, authorityKey)
	if err != nil {
		return err
	}
	c.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authorityDER})
	if err := os.WriteFile(c.caFile, c.caPEM, 0o600); err != nil {
		return err
	}
	serverPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serverDER})
	if err := os.WriteFile(c.certFile, serverPEM, 0o600); err != nil {
		return err
	}
	return writeKey(c.keyFile, serverKey)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// writeKubeconfig writes a kubeconfig that logs in as user. JSON is YAML, so that kubectl reads it too.
func (c *credentials) writeKubeconfig(path, url string, user user) error {
	type object = map[string]any
	config := object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"clusters":        []object{{"name": "testenv", "cluster": object{"server": url, "certificate-authority-data": c.caPEM}}},
		"users":           []object{{"name": user.name, "user": object{"token": user.token}}},
		"contexts":        []object{{"name": "testenv", "context": object{"cluster": "testenv", "user": user.name}}},
		"current-context": "testenv",
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
