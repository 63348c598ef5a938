package main

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// store is a shared informer without a server: objects are put into it, and its handlers have seen them when put returns.
// That makes a scheduler fed by it deterministic, and ready at once.
type store struct {
	cache.Indexer
	handlers []cache.ResourceEventHandler
}

func newStore() *store {
	return &store{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

// put adds an object, or updates the one of the same namespace and name.
func (s *store) put(object runtime.Object) error {
	old, exists, err := s.Get(object)
	if err != nil {
		return err
	}
	if err := s.Update(object); err != nil {
		return err
	}
	for _, handler := range s.handlers {
		if exists {
			handler.OnUpdate(old, object)
		} else {
			handler.OnAdd(object, true)
		}
	}
	return nil
}

func (s *store) remove(object runtime.Object) error {
	if err := s.Delete(object); err != nil {
		return err
	}
	for _, handler := range s.handlers {
		handler.OnDelete(object)
	}
	return nil
}

// synced is the registration of a handler that has seen everything.
type synced struct{}

func (synced) HasSynced() bool { return true }

func (s *store) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range s.List() {
		handler.OnAdd(object, true)
	}
	s.handlers = append(s.handlers, handler)
	return synced{}, nil
}

func (s *store) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *store) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *store) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (s *store) GetStore() cache.Store                                           { return s.Indexer }
func (s *store) GetIndexer() cache.Indexer                                       { return s.Indexer }
func (s *store) GetController() cache.Controller                                 { return nil }
func (s *store) Run(<-chan struct{})                                             {}
func (s *store) RunWithContext(context.Context)                                  {}
func (s *store) HasSynced() bool                                                 { return true }
func (s *store) LastSyncResourceVersion() string                                 { return "" }
func (s *store) SetTransform(cache.TransformFunc) error                          { return nil }
func (s *store) IsStopped() bool                                                 { return false }
func (s *store) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return nil }
func (s *store) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// stores are one store for each kind that the scheduler reads, by kind, and the informer factory over them.
type stores struct {
	byKind  map[string]*store
	factory informers.SharedInformerFactory
}

// read are the kinds that the scheduler's plugins list or watch.
var read = map[string]runtime.Object{
	"Pod":                   &v1.Pod{},
	"Node":                  &v1.Node{},
	"Namespace":             &v1.Namespace{},
	"Service":               &v1.Service{},
	"ReplicationController": &v1.ReplicationController{},
	"PersistentVolume":      &v1.PersistentVolume{},
	"PersistentVolumeClaim": &v1.PersistentVolumeClaim{},
	"ReplicaSet":            &appsv1.ReplicaSet{},
	"StatefulSet":           &appsv1.StatefulSet{},
	"PodDisruptionBudget":   &policyv1.PodDisruptionBudget{},
	"StorageClass":          &storagev1.StorageClass{},
	"CSINode":               &storagev1.CSINode{},
	"CSIDriver":             &storagev1.CSIDriver{},
	"CSIStorageCapacity":    &storagev1.CSIStorageCapacity{},
	"VolumeAttachment":      &storagev1.VolumeAttachment{},
	"ResourceClaim":         &resourcev1.ResourceClaim{},
	"ResourceSlice":         &resourcev1.ResourceSlice{},
	"DeviceClass":           &resourcev1.DeviceClass{},
}

func newStores() *stores {
	created := &stores{
		byKind:  make(map[string]*store, len(read)),
		factory: informers.NewSharedInformerFactory(noClient{}, 0),
	}
	for kind, object := range read {
		store := newStore()
		created.byKind[kind] = store
		// The factory keeps the first informer of a type; listers and plugins ask it for theirs later.
		created.factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return store })
	}
	return created
}

// noClient is a client of no server. Nothing here is to make a request, and one that is made panics.
type noClient struct{ kubernetes.Interface }
