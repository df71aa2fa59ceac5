for (const svg of document.querySelectorAll('svg[data-x]')) {
  const [s0, s1, x0, x1] = svg.dataset.x.split(' ').map(Number), [v0, v1, y0, y1] = svg.dataset.y.split(' ').map(Number);
  const lines = [...svg.querySelectorAll('polyline[data-name]')].filter(l => l.points.numberOfItems > 0);
  const cursor = svg.querySelector('.cursor'), output = svg.parentNode.querySelector('output');
  const value = y => {
    const t = (y - y0) / (y1 - y0);
    return svg.dataset.scale !== 'linear' ? v0 * Math.pow(v1 / v0, t) : v0 + (v1 - v0) * t;
  };
  const words = value => {
    const exponent = Math.log2(value), whole = Math.round(exponent);
    return svg.dataset.scale === 'log2' && Math.abs(exponent - whole) < 0.05 ? '2^' + whole : Number(value.toPrecision(4));
  };
  const nearest = (points, x) => {
    let low = 0, high = points.numberOfItems - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      points.getItem(middle).x < x ? low = middle + 1 : high = middle;
    }
    return low > 0 && x - points.getItem(low - 1).x < points.getItem(low).x - x ? points.getItem(low - 1) : points.getItem(low);
  };
  svg.addEventListener('pointermove', event => {
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    const inside = x >= x0 && x <= x1 && lines.length > 0;
    cursor.setAttribute('visibility', inside ? 'visible' : 'hidden');
    if (!inside) return output.textContent = '';
    cursor.setAttribute('x1', x); cursor.setAttribute('x2', x);
    const step = Math.round(s0 + (x - x0) / (x1 - x0) * (s1 - s0));
    output.textContent = 'step ' + step.toLocaleString('en') + lines.map(l =>
      ' · ' + l.dataset.name + ' ' + words(value(nearest(l.points, x).y))).join('');
  });
  svg.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); output.textContent = ''; });
}
