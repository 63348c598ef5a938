package controlplane

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeOpenAPI writes each document of /openapi/v3 as FOLDER/PATH.json, as FOLDER/apis/apps/v1.json, and which there are
// as FOLDER/index.json.
func writeOpenAPI(options *options, rest []string) (int, error) {
	if len(rest) != 1 {
		return 2, fmt.Errorf("openapi: expected one folder, got %d arguments", len(rest))
	}
	s, err := newSupervisor(options, stopOnSignal().channel)
	if err != nil {
		return 1, err
	}
	defer s.close()

	text, err := s.get(s.layout.apiserver.url + "/openapi/v3")
	if err != nil {
		return 1, fmt.Errorf("GET /openapi/v3: %w", err)
	}
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return 1, fmt.Errorf("GET /openapi/v3: %w", err)
	}
	if err := writeDocument(rest[0], "index", text); err != nil {
		return 1, err
	}
	for path, document := range index.Paths {
		text, err := s.get(s.layout.apiserver.url + document.URL)
		if err != nil {
			return 1, fmt.Errorf("GET %s: %w", document.URL, err)
		}
		if err := writeDocument(rest[0], path, text); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

func writeDocument(folder, path string, text []byte) error {
	if strings.Contains(path, "..") {
		return fmt.Errorf("OpenAPI document %q: not a path below the server", path)
	}
	file := filepath.Join(folder, filepath.FromSlash(path)+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
