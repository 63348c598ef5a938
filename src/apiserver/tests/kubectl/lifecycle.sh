# What becomes of nodes, of the pods on them and of volumes: conditions, taints, tolerations, claims. Scripts are played as in
# transcript.sh; kubelets and schedulers are played by kubectl.

kubectl create namespace t
kubectl config set-context --current --namespace t >/dev/null

kubectl create -f - <<'Y'
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {taints: [{key: own, effect: NoSchedule}]}
Y
# The taint of their creation goes as soon as the controller sees that nothing asks for it.
until ! kubectl get node n1 n2 -o jsonpath='{.items[*].spec.taints}' | grep -q not-ready; do sleep 0.2; done
kubectl get node n1 n2 -o jsonpath='{range .items[*]}{.spec.taints}{"\n"}{end}'

for n in n1 n2; do
  kubectl patch node $n --subresource=status --type merge -p '{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2030-01-01T00:00:00Z","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}' >/dev/null
done
until ! kubectl get node n1 n2 -o jsonpath='{.items[*].spec.taints}' | grep -q not-ready; do sleep 0.2; done
kubectl get node n1 n2 -o jsonpath='{range .items[*]}{.spec.taints}{"\n"}{end}'
kubectl get nodes

kubectl cordon n1
until kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q unschedulable; do sleep 0.2; done
kubectl get node n1 -o jsonpath='{.spec.taints[*].key} {.spec.taints[*].effect}'
kubectl uncordon n1
until ! kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q unschedulable; do sleep 0.2; done

kubectl patch node n1 --subresource=status -p '{"status":{"conditions":[{"type":"MemoryPressure","status":"True","lastHeartbeatTime":"2030-01-01T00:00:00Z","lastTransitionTime":"2020-01-01T00:00:00Z"},{"type":"DiskPressure","status":"True","lastHeartbeatTime":"2030-01-01T00:00:00Z","lastTransitionTime":"2020-01-01T00:00:00Z"},{"type":"PIDPressure","status":"Unknown","lastHeartbeatTime":"2030-01-01T00:00:00Z","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}' >/dev/null
until kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q disk-pressure; do sleep 0.2; done
kubectl get node n1 -o jsonpath='{range .spec.taints[*]}{.key} {.effect}{"\n"}{end}' | sort
kubectl patch node n1 --subresource=status -p '{"status":{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"DiskPressure","status":"False"}]}}' >/dev/null
until ! kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q pressure; do sleep 0.2; done
kubectl get node n1 -o jsonpath='{.spec.taints}'

# A taint of a condition, put there by hand: nothing asks for it.
kubectl taint node n1 node.kubernetes.io/memory-pressure=:NoSchedule >/dev/null
until ! kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q pressure; do sleep 0.2; done
kubectl taint node n1 mine=x:PreferNoSchedule
kubectl get node n1 -o jsonpath='{.spec.taints}'
kubectl taint node n1 mine- >/dev/null

for pod in bare short long always; do
  case $pod in
    bare) t='[]' ;;
    short) t='[{key: gone, operator: Exists, effect: NoExecute, tolerationSeconds: 2}]' ;;
    long) t='[{key: gone, operator: Exists, effect: NoExecute, tolerationSeconds: 3600}]' ;;
    always) t='[{operator: Exists}]' ;;
  esac
  kubectl create -f - <<Y
apiVersion: v1
kind: Pod
metadata: {name: $pod}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, tolerations: $t, containers: [{name: c, image: i}]}
Y
done
kubectl get pods -o custom-columns=N:.metadata.name,T:.spec.tolerations[*].key --no-headers

# Who tolerates a taint for nobody's time stays, who tolerates it for a time goes then, who does not goes at once.
kubectl taint node n1 gone=yes:NoExecute
kubectl wait pod bare --for=delete --timeout=60s >/dev/null
kubectl get pod always long -o name
kubectl wait pod short --for=delete --timeout=60s >/dev/null
kubectl get pods -o name

# With the taint the eviction that is due is called off.
kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: saved}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, tolerations: [{key: gone, operator: Exists, effect: NoExecute, tolerationSeconds: 20}], containers: [{name: c, image: i}]}
Y
sleep 1
kubectl taint node n1 gone-
sleep 1
kubectl get pods -o name

# A taint with another value, and one that is tolerated by its value.
kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: valued}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, tolerations: [{key: k, value: a, effect: NoExecute}], containers: [{name: c, image: i}]}
Y
kubectl taint node n1 k=a:NoExecute
kubectl wait pod saved long --for=delete --timeout=60s >/dev/null
kubectl get pods -o name
kubectl taint node n1 k=b:NoExecute --overwrite
kubectl wait pod valued --for=delete --timeout=60s >/dev/null
kubectl get pods -o name
kubectl taint node n1 k-

# A pod with a finalizer shows why it goes.
kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: held, finalizers: [example.com/hold]}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
Y
kubectl taint node n1 go=:NoExecute
until [ -n "$(kubectl get pod held -o jsonpath='{.metadata.deletionTimestamp}')" ]; do sleep 0.2; done
kubectl get pod held -o jsonpath='{range .status.conditions[*]}{.type} {.status} {.reason} {.message}{"\n"}{end}'
kubectl patch pod held --type json -p '[{"op":"remove","path":"/metadata/finalizers"}]' >/dev/null
kubectl wait pod held --for=delete --timeout=60s >/dev/null
kubectl taint node n1 go-

# A node that is not ready: its pods stay for as long as admission let them, those without go.
kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: patient}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: hasty}
spec:
  nodeName: n1
  terminationGracePeriodSeconds: 0
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
  containers: [{name: c, image: i}]
Y
kubectl patch node n1 --subresource=status -p '{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","lastHeartbeatTime":"2030-01-01T00:00:01Z"}]}}' >/dev/null
until kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q NoExecute; do sleep 0.2; done
until kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q NoSchedule; do sleep 0.2; done
kubectl get node n1 -o jsonpath='{range .spec.taints[*]}{.key} {.effect}{"\n"}{end}' | sort
kubectl wait pod hasty --for=delete --timeout=60s >/dev/null
kubectl get pods -o name
kubectl get node n1

kubectl patch node n1 --subresource=status -p '{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","lastHeartbeatTime":"2030-01-01T00:00:02Z"}]}}' >/dev/null
until [ "$(kubectl get node n1 -o jsonpath='{.spec.taints[*].key}' | tr ' ' '\n' | grep -c unreachable)" = 2 ]; do sleep 0.2; done
until ! kubectl get node n1 -o jsonpath='{.spec.taints}' | grep -q not-ready; do sleep 0.2; done
kubectl get node n1 -o jsonpath='{range .spec.taints[*]}{.key} {.effect}{"\n"}{end}' | sort
kubectl patch node n1 --subresource=status -p '{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2030-01-01T00:00:03Z"}]}}' >/dev/null
until [ -z "$(kubectl get node n1 -o jsonpath='{.spec.taints}')" ]; do sleep 0.2; done
kubectl get pods -o name
kubectl delete pod --all

# Volumes that a claim takes at once: the smallest that is large enough.
kubectl create -f - <<'Y'
apiVersion: v1
kind: PersistentVolume
metadata: {name: small}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/a}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: middle}
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/b}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: versatile}
spec: {capacity: {storage: 3Gi}, accessModes: [ReadWriteOnce, ReadOnlyMany], hostPath: {path: /tmp/e}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: large}
spec: {capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/c}}
Y
for v in small middle versatile large; do kubectl wait pv $v --for=jsonpath='{.status.phase}'=Available --timeout=60s; done

kubectl create -f - <<'Y'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
Y
kubectl wait pvc c --for=jsonpath='{.status.phase}'=Bound --timeout=60s
kubectl wait pv middle --for=jsonpath='{.status.phase}'=Bound --timeout=60s
kubectl get pvc c
kubectl get pvc c -o jsonpath='{.metadata.annotations}{.metadata.finalizers}{.spec.volumeName}{.status}'
kubectl get pv
kubectl get pv middle -o jsonpath='{.metadata.annotations}{.metadata.finalizers}{.spec.claimRef.kind}{.spec.claimRef.namespace}{.spec.claimRef.name}'

# A claim that nothing is large enough for waits, and so does one of another class.
kubectl create -f - <<'Y'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: huge}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: other}
spec: {accessModes: [ReadWriteOnce], storageClassName: none-such, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
Y
sleep 2
kubectl get pvc huge other shared
kubectl delete pvc huge other shared

# A claim that names its volume.
kubectl create -f - <<'Y'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: named}
spec: {accessModes: [ReadWriteOnce], volumeName: large, resources: {requests: {storage: 1Gi}}}
Y
kubectl wait pvc named --for=jsonpath='{.status.phase}'=Bound --timeout=60s
kubectl get pvc named -o jsonpath='{.metadata.annotations}'
kubectl get pv large -o jsonpath='{.metadata.annotations}'

# In use, a claim is kept; then it goes, and its volume is released.
kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: user}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}
Y
kubectl delete pvc c --wait=false
sleep 1
kubectl get pvc c
kubectl delete pod user
kubectl wait pvc c --for=delete --timeout=60s >/dev/null
kubectl wait pv middle --for=jsonpath='{.status.phase}'=Released --timeout=60s
kubectl get pv middle
kubectl delete pv middle
kubectl wait pv middle --for=delete --timeout=60s >/dev/null

# A volume in use is kept.
kubectl delete pv large --wait=false
sleep 1
kubectl get pv large
kubectl delete pvc named
kubectl wait pv large --for=delete --timeout=60s >/dev/null

# A class that waits for a consumer.
kubectl create -f - <<'Y'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: on-n1}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /tmp/d}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: late}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}
Y
kubectl wait pv on-n1 --for=jsonpath='{.status.phase}'=Available --timeout=60s
sleep 2
kubectl get pvc late
kubectl get pv on-n1

# What a scheduler does when it binds the pod of the claim: it gives the volume to the claim.
uid=$(kubectl get pvc late -o jsonpath='{.metadata.uid}')
kubectl patch pv on-n1 -p '{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"t","name":"late","uid":"'$uid'"}}}' >/dev/null
kubectl wait pvc late --for=jsonpath='{.status.phase}'=Bound --timeout=60s
kubectl get pvc late
kubectl get pvc late -o jsonpath='{.metadata.annotations}{.spec.volumeName}'
kubectl wait pv on-n1 --for=jsonpath='{.status.phase}'=Bound --timeout=60s
kubectl get pv on-n1

kubectl delete pvc late
kubectl wait pv on-n1 --for=jsonpath='{.status.phase}'=Released --timeout=60s
kubectl delete pv on-n1 small versatile
kubectl delete storageclass local

kubectl delete node n1 n2
kubectl delete namespace t --timeout=60s
