# SPDX-License-Identifier: Apache-2.0
"""django_app.py: a Django service with prometheus_client, which knows nothing of us. Each worker writes into a file in $NOTES how
many updates it has begun and done."""
import os
import struct
import time

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Gauge, Histogram, generate_latest

requests = Counter('shop_requests', 'Requests answered.', ['route', 'code'])
seconds = Histogram('shop_seconds', 'Time to answer.', ['route'], buckets=(.001, .01, .1, 1))
working = Gauge('shop_working', 'Requests in work.', multiprocess_mode='livesum')
updates = {}


def note(n, at):
    pid = os.getpid()
    if pid not in updates:
        name = f"{os.environ['NOTES']}/{pid}-{time.monotonic_ns()}"  # with many workers, some have had the same pid
        updates[pid] = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.pwrite(updates[pid], struct.pack('<Q', n), at)


def hit(request, route):
    global done
    note(done + 1, 0)
    with working.track_inprogress():
        requests.labels(f'/{route}', 200).inc()
        seconds.labels(f'/{route}').observe(done % 3 / 20)
    done += 1
    note(done, 8)
    return HttpResponse(str(os.getpid()))


def metrics(request):
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)


done = 0
urlpatterns = [path('hit/<route>', hit), path('metrics', metrics)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=['*'], SECRET_KEY='of a test', USE_TZ=True)
django.setup()
application = get_wsgi_application()
