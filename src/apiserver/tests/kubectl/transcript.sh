# What people do with kubectl. Scripts stand apart by an empty line and are played to both servers in order; what a script
# prints is compared, its exit code too.

kubectl create namespace t
kubectl get namespace t
kubectl config set-context --current --namespace t >/dev/null

kubectl version | grep Server

kubectl auth whoami -o jsonpath='{.kind}'

kubectl auth can-i create pods

kubectl api-resources --api-group=apps

kubectl api-resources --api-group=policy -o wide

kubectl api-versions | grep -E 'apps|policy|batch|^v1'

kubectl explain pod.spec.nodeName

# differs: The values that a text may have are not told in schemas.
kubectl explain deployment.spec.strategy --recursive

kubectl explain nothing

kubectl create configmap c --from-literal=a=b --from-literal=c=d
kubectl get configmap c -o yaml
kubectl get configmap c -o json
kubectl get configmap c -o name
kubectl get configmap c -o jsonpath='{.data.a}'
kubectl get configmap c -o custom-columns=NAME:.metadata.name,A:.data.a
kubectl get configmap c -o go-template='{{.data.c}}'
kubectl get configmap c -o wide
kubectl get configmap c --no-headers

kubectl create configmap c

kubectl get configmap none

kubectl describe configmap c

kubectl get nothings

kubectl label configmap c x=y
kubectl label configmap c x=z
kubectl label configmap c x=z --overwrite
kubectl get configmap c --show-labels
kubectl get configmap -l x=z
kubectl label configmap c x-
kubectl annotate configmap c note=hello
kubectl get configmap c -o jsonpath='{.metadata.annotations}'

kubectl patch configmap c --type merge -p '{"data":{"a":"1"}}'
kubectl patch configmap c --type json -p '[{"op":"add","path":"/data/e","value":"f"}]'
kubectl patch configmap c --type strategic -p '{"data":{"c":null}}'
kubectl patch configmap c -p 'nope'
kubectl get configmap c -o jsonpath='{.data}'

KUBE_EDITOR="sed -i /e:.f/s/f\$/g/" kubectl edit configmap c
kubectl get configmap c -o jsonpath='{.data.e}'

KUBE_EDITOR=true kubectl edit configmap c

kubectl create secret generic s --from-literal=password=x
kubectl describe secret s
kubectl get secret s -o jsonpath='{.data.password}'

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1", resources: {requests: {cpu: 100m}}}], terminationGracePeriodSeconds: 0}
Y

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1", resources: {requests: {cpu: 100m}}}], terminationGracePeriodSeconds: 0}
Y
kubectl wait deployment web --for=jsonpath='{.status.replicas}'=3 --timeout=60s
kubectl get deployment web
kubectl get deployment web -o wide

kubectl diff -f - <<'Y' | grep '^[+-] '
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1", e: h}
Y

kubectl get replicaset -l app=web
kubectl get pods -l app=web
kubectl get pods -l app=web -o wide

for pod in $(kubectl get pods -l app=web -o name); do
  kubectl patch $pod --subresource=status --type merge -p '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}],"containerStatuses":[{"name":"c","image":"i","imageID":"x","ready":true,"restartCount":2,"state":{"running":{"startedAt":"2020-01-01T00:00:00Z"}}}]}}' >/dev/null
done
kubectl rollout status deployment web --timeout=60s
kubectl wait deployment web --for=condition=Available --timeout=60s
kubectl wait pod -l app=web --for=condition=Ready --timeout=60s
kubectl get pods -l app=web
kubectl get deployment web

kubectl rollout history deployment web

kubectl scale deployment web --replicas=1
kubectl wait deployment web --for=jsonpath='{.status.replicas}'=1 --timeout=60s
kubectl scale deployment web --replicas=2 --current-replicas=5
kubectl scale deployment none --replicas=2

kubectl set image deployment web c=i:2
kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'

kubectl describe deployment web | grep -vE 'Events|ScalingReplicaSet|Type|----|ReplicaSet|Progressing|Available|Replicas'

kubectl apply --server-side -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: ssa}
data: {a: "1"}
Y
kubectl apply --server-side --field-manager=other -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: ssa}
data: {a: "2"}
Y

kubectl apply --server-side --field-manager=other --force-conflicts -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: ssa}
data: {a: "2"}
Y
kubectl get configmap ssa -o yaml --show-managed-fields

kubectl apply --server-side --dry-run=server -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: dry}
Y
kubectl create configmap dry --dry-run=server -o name
kubectl get configmap dry

kubectl apply -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: strict}
nothing: 1
Y

kubectl apply -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: [{name: c}]}
Y

kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {generateName: gen-}
spec: {containers: [{name: c, image: i}]}
Y

kubectl apply -f - <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbor.test}
spec:
  group: harbor.test
  scope: Namespaced
  names: {plural: boats, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Length, type: integer, jsonPath: .spec.length}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the boat is like.
            properties:
              length: {type: integer, minimum: 1, description: In meters.}
              flag: {type: string, default: none}
          status: {type: object, properties: {moored: {type: boolean}}}
Y
kubectl wait crd boats.harbor.test --for=condition=Established --timeout=60s

until kubectl get boats >/dev/null 2>&1; do sleep 0.2; done
kubectl apply -f - <<'Y'
apiVersion: harbor.test/v1
kind: Boat
metadata: {name: anna}
spec: {length: 12}
Y
kubectl get boats
kubectl get bt anna -o yaml
kubectl describe boat anna
kubectl patch boat anna --type merge -p '{"spec":{"length":0}}'
kubectl patch boat anna --subresource=status --type merge -p '{"status":{"moored":true}}'
kubectl get boat anna -o jsonpath='{.status.moored}'

until kubectl explain boat.spec >/dev/null 2>&1; do sleep 0.2; done
kubectl explain boat.spec

kubectl delete boat anna
kubectl delete boat anna
kubectl delete boat anna --ignore-not-found

kubectl delete crd boats.harbor.test

kubectl create -f - <<'Y'
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {disk: ssd}}
Y
kubectl cordon n1
kubectl get node n1
kubectl uncordon n1
kubectl taint node n1 dedicated=a:NoSchedule
kubectl get node n1 -o jsonpath='{.spec.taints}'
kubectl taint node n1 dedicated-
kubectl describe node n1 | head -12

kubectl create -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: on-node}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
Y
kubectl drain n1 --timeout=60s
kubectl drain n1 --force --timeout=60s
kubectl get pod on-node
kubectl get node n1

kubectl describe pod -l app=web | head -8

kubectl create job job --image=i
kubectl wait job job --for=jsonpath='{.status.active}'=1 --timeout=60s
kubectl get job job
kubectl get pods -l job-name=job

kubectl delete job job --cascade=orphan
kubectl get pods -l job-name=job
kubectl delete pods -l job-name=job --now

kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: each}
spec:
  selector: {matchLabels: {app: each}}
  template: {metadata: {labels: {app: each}}, spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait daemonset each --for=jsonpath='{.status.desiredNumberScheduled}'=1 --timeout=60s
kubectl get daemonset each
kubectl get pods -l app=each
kubectl delete daemonset each --cascade=foreground

kubectl create -f - <<'Y'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}], terminationGracePeriodSeconds: 0}}
Y
kubectl wait statefulset db --for=jsonpath='{.status.replicas}'=1 --timeout=60s
kubectl get statefulset db
kubectl get pods -l app=db
kubectl delete statefulset db

kubectl create poddisruptionbudget b --selector=app=web --min-available=1
kubectl wait pdb b --for=jsonpath='{.status.observedGeneration}'=1 --timeout=60s
kubectl get pdb b
kubectl describe pdb b | head -7

kubectl create service clusterip svc --tcp=80:8080
kubectl get service svc
kubectl expose deployment web --port=80
kubectl get service web -o jsonpath='{.spec.selector}'

kubectl create quota few --hard=secrets=2,requests.cpu=1 --scopes=
kubectl wait quota few --for=jsonpath='{.status.hard.secrets}'=2 --timeout=60s
kubectl create secret generic second
kubectl wait quota few --for=jsonpath='{.status.used.secrets}'=2 --timeout=60s
kubectl create secret generic third
kubectl run greedy --image=i
kubectl run greedy --image=i --overrides='{"spec":{"containers":[{"name":"greedy","image":"i","resources":{"requests":{"cpu":"5"}}}]}}'
kubectl describe quota few
kubectl delete quota few

kubectl create quota q --hard=pods=50,configmaps=20
kubectl create priorityclass vip --value=100
kubectl get priorityclass vip

kubectl create role r --verb=get --resource=pods
kubectl create rolebinding rb --role=r --user=u
kubectl describe rolebinding rb

kubectl get --raw /healthz

kubectl get --raw /api/v1/namespaces/t/configmaps/none

timeout 3 kubectl get configmap c --watch
echo $?

kubectl get events -A -o name | wc -l >/dev/null; echo done

kubectl get all -l none=such

kubectl replace -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {z: "26"}
Y
kubectl replace -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: absent}
Y

kubectl delete configmap c ssa

kubectl delete deployment web --cascade=background
kubectl wait pod -l app=web --for=delete --timeout=60s

kubectl delete namespace t --timeout=60s
kubectl get namespace t
